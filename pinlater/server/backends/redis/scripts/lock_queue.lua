-- Locks a queue for ARGV[2] ms under the token ARGV[3]. Returns 1, also if that token already holds the lock; 0 if
-- another one holds it.
-- parts: when_full
local key = prefix .. 'lock'
local is_locked = redis.call('SET', key, ARGV[3], 'NX', 'PX', ARGV[2]) or redis.call('GET', key) == ARGV[3]
return is_locked and 1 or 0
