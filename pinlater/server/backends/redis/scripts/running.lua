-- How many jobs are claimed.
return redis.call('ZCARD', CLAIMS)
