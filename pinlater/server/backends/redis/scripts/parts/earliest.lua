-- What the monitor goes by instead of asking every queue: for all queues of the shard together, a moment that is not
-- later than the first one in the queue's "claims" (when it expires), "S" and "F" (when it finished). It may be earlier:
-- whoever ends a claim does not look for the next one.
local SHARD, QUEUE = string.match(KEYS[1], '^([^{]*{[^:]*):(.*)}$')
local KINDS_OF_UPKEEP = {'claims', 'S', 'F'}

local function expect(kind, moment)
  redis.call('ZADD', SHARD .. '}:earliest:' .. kind, 'LT', moment, QUEUE)
end

-- After some were taken away: the moment of the one that is first now.
local function correct(kind)
  local first = redis.call('ZRANGE', prefix .. kind, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', SHARD .. '}:earliest:' .. kind, first[2], QUEUE)
  else
    redis.call('ZREM', SHARD .. '}:earliest:' .. kind, QUEUE)
  end
end
