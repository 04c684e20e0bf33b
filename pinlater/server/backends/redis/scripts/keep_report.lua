-- A worker's report -> another one, or none. KEYS[1] has the reports by worker, each behind its time; KEYS[1]:expiry the
-- workers by when theirs expire. ARGV[2] worker; [3] report; [4] for how many ms, "0" to forget the worker.
-- alone
-- with clock
local expiry = KEYS[1] .. ':expiry'
if ARGV[4] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('ZREM', expiry, ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], NOW .. ' ' .. ARGV[3])
  redis.call('ZADD', expiry, string.format('%d', now + ARGV[4]), ARGV[2])
end
-- Some of those that have gone without a word; not all at once, should there be many.
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', NOW, 'LIMIT', 0, 100)) do
  redis.call('HDEL', KEYS[1], worker)
  redis.call('ZREM', expiry, worker)
end
return 1
