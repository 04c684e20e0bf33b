-- Reads counts; see add_statistics.lua. ARGV[2] resolution; [3] kind; [4] MessagePack, a list of starts; [5]
-- MessagePack, a list of queues, empty for all except the one without a name; [6] MessagePack, {} or {name}; [7] most
-- entries.
-- Returns a flat list: start, queue, name, counts, start, ...
-- standalone
-- parts: clock
local kind, queues, wanted = ARGV[3], cmsgpack.unpack(ARGV[5]), cmsgpack.unpack(ARGV[6])[1]
local left = tonumber(ARGV[7])
local found = {}

local function add(start, queue, name, counts)
  if counts and left > 0 and (not wanted or name == wanted) then
    for _, value in ipairs({start, queue, name, counts}) do
      found[#found + 1] = value
    end
    left = left - 1
  end
end

local function add_all(start, queue, key)
  local stored = redis.call('HGETALL', key)
  for at = 1, #stored, 2 do
    add(start, queue, stored[at], stored[at + 1])
  end
end

for _, start in ipairs(cmsgpack.unpack(ARGV[4])) do
  local period = KEYS[1] .. ':' .. ARGV[2] .. ':' .. start .. ':' .. kind
  if kind == '0' then
    if #queues == 0 then
      local stored = redis.call('HGETALL', period)
      for at = 1, #stored, 2 do
        if stored[at] ~= '' then
          add(start, stored[at], '', stored[at + 1])
        end
      end
    end
    for _, queue in ipairs(queues) do
      add(start, queue, '', redis.call('HGET', period, queue))
    end
  else
    for _, queue in ipairs(#queues == 0 and redis.call('SMEMBERS', period) or queues) do
      if #queues > 0 or queue ~= '' then
        add_all(start, queue, period .. ':' .. queue)
      end
    end
  end
  if left <= 0 then
    break
  end
end
return found
