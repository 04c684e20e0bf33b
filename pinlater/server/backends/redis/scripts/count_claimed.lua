-- Counts the claimed jobs.
return redis.call('ZCARD', CLAIMS)
