-- Updates the due index for some queues: servers of older versions claim, finish and delete without updating it.
-- KEYS[1] is the prefix of the due index, see due_index.lua. ARGV[2] on: names of queues.
-- standalone
-- parts: when_full queue_prefix
local KINDS = {'claims', 'S', 'F'}

local function index_first(kind, key, queue)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', KEYS[1] .. ':' .. kind, 'LT', first[2], queue)
  end
end

for at = 2, #ARGV do
  local queue = ARGV[at]
  local prefix = prefix_of(queue)
  for _, kind in ipairs(KINDS) do
    if not prefix then
      redis.call('ZREM', KEYS[1] .. ':' .. kind, queue)
    end
  end
  if prefix and redis.call('EXISTS', prefix .. 'claims', prefix .. 'S', prefix .. 'F') > 0 then
    for _, kind in ipairs(KINDS) do
      index_first(kind, prefix .. kind, queue)
    end
  end
end
return 1
