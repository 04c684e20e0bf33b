-- What holds a queue's jobs back. Returns {"1" if it is paused, jobs a second, jobs running at once}; false for those
-- that are not set.
return redis.call('HMGET', prefix .. 'settings', 'is_paused', 'jobs_per_second', 'max_running')
