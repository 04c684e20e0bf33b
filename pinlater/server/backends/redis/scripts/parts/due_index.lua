-- The due index tells the monitor which queues to check, so that it need not check all of them. For every queue of the
-- shard it has a moment that is no later than the first one in the queue's "claims" (when it expires), and in "S" and
-- "F" (when it finished). It may be earlier, since ending a claim does not search for the next one.
local SHARD, QUEUE = string.match(KEYS[1], '^([^{]*{[^:]*):(.*)}$')
local DUE_KINDS = {'claims', 'S', 'F'}

local function index_due(kind, moment)
  redis.call('ZADD', SHARD .. '}:earliest:' .. kind, 'LT', moment, QUEUE)
end

-- Indexes the moment of the member that is now the first; call it after a removal.
local function reindex_due(kind)
  local first = redis.call('ZRANGE', prefix .. kind, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', SHARD .. '}:earliest:' .. kind, first[2], QUEUE)
  else
    redis.call('ZREM', SHARD .. '}:earliest:' .. kind, QUEUE)
  end
end
