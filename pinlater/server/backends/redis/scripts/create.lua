-- No queue -> an empty queue; a queue -> itself. KEYS[1] the queue. Its lives are numbered by its ids, which go on from
-- one life to the next: no descriptor ever means two jobs.
-- alone
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], redis.call('INCR', KEYS[1] .. ':ids'))
end
return 1
