-- Adds counts to the stored ones. KEYS[1]:<resolution>:<start>:0 is a hash, queue -> counts of this period; for the
-- other kinds, KEYS[1]:<resolution>:<start>:<kind> is a set of queues, and the same with ":<queue>" a hash, name ->
-- counts. Counts are text: "<position>:<count> ...". All keys expire.
-- ARGV[2]: MessagePack, a list of {resolution, start, kind, queue, name, counts, lifetime in seconds}.
-- standalone
-- parts: clock when_full
local function merge(stored, added)
  local sums, order = {}, {}
  for _, text in ipairs({stored, added}) do
    for position, count in string.gmatch(text, '(%d+):(%d+)') do
      if not sums[position] then
        order[#order + 1] = position
      end
      sums[position] = (sums[position] or 0) + count
    end
  end
  for at, position in ipairs(order) do
    order[at] = position .. ':' .. string.format('%d', sums[position])
  end
  return table.concat(order, ' ')
end

for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local resolution, start, kind, queue, name, counts, seconds = unpack(entry)
  local period = KEYS[1] .. ':' .. string.format('%d:%s:%d', resolution, start, kind)
  local key, field = period, queue
  if kind ~= 0 then
    key, field = period .. ':' .. queue, name
    redis.call('SADD', period, queue)
    redis.call('EXPIRE', period, seconds)
  end
  local stored = redis.call('HGET', key, field)
  redis.call('HSET', key, field, stored and merge(stored, counts) or counts)
  redis.call('EXPIRE', key, seconds)
end
return 1
