-- No queue -> an empty queue, which is listed; an existing queue is left as it is. KEYS[1] is the queue. Its generation
-- is taken from its id counter, which continues when the queue is deleted and created again, so no descriptor ever
-- names two jobs.
-- standalone
-- parts: when_full
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], redis.call('INCR', KEYS[1] .. ':ids'))
end
local shard, queue = string.match(KEYS[1], '^([^{]*{[^:]*):(.*)}$')
redis.call('SADD', shard .. '}:queues', queue)
return 1
