-- Whether any job of the queue has a key, and whether any shares one with others.
local HAS_KEYS = redis.call('EXISTS', prefix .. 'job_keys', prefix .. 'keys') > 0
local HAS_SHARED_KEYS = HAS_KEYS and redis.call('EXISTS', prefix .. 'job_keys') == 1
