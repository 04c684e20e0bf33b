-- Lets nobody else have the queue's turn for a while. ARGV[2] milliseconds, [3] what ends it. Returns 1, or 0: somebody has.
return redis.call('SET', prefix .. 'turn', ARGV[3], 'NX', 'PX', ARGV[2]) and 1 or 0
