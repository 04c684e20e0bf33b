-- Locks a queue for ARGV[2] milliseconds under the token [3]. Returns 1, or 0 if somebody else has locked it.
return redis.call('SET', prefix .. 'lock', ARGV[3], 'NX', 'PX', ARGV[2]) and 1 or 0
