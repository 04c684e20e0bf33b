-- Locks a queue for ARGV[2] milliseconds under the token [3]. Returns 1, also when it is locked under that token already, or
-- 0 if somebody else has locked it.
local key = prefix .. 'lock'
local is_locked = redis.call('SET', key, ARGV[3], 'NX', 'PX', ARGV[2]) or redis.call('GET', key) == ARGV[3]
return is_locked and 1 or 0
