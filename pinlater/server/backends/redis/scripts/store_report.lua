-- Replaces or removes the report of a worker. KEYS[1] is a hash, worker -> time and report; KEYS[1]:expiry is a sorted
-- set of workers by the time at which their report expires. ARGV[2] worker; [3] report; [4] lifetime in ms, "0" to
-- remove the report.
-- standalone
-- parts: clock when_full
local expiry = KEYS[1] .. ':expiry'
if ARGV[4] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('ZREM', expiry, ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], NOW .. ' ' .. ARGV[3])
  redis.call('ZADD', expiry, string.format('%d', now + ARGV[4]), ARGV[2])
end
-- Removes some expired reports, not all at once, since there may be many.
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', NOW, 'LIMIT', 0, 100)) do
  redis.call('HDEL', KEYS[1], worker)
  redis.call('ZREM', expiry, worker)
end
return 1
