-- Reads the settings of queues. KEYS[1] is the prefix of the shard's keys. ARGV[2] on: names of queues.
-- Returns for each queue {"1" if it is paused, jobs per second, most running jobs, shards, shards by load}, with false
-- for each that is not set; or false if there is no such queue.
-- standalone
-- parts: queue_prefix
local found = {}
for at = 2, #ARGV do
  local prefix = prefix_of(ARGV[at])
  found[#found + 1] = prefix
    and redis.call('HMGET', prefix .. 'settings', 'is_paused', 'jobs_per_second', 'max_running', 'shards', 'shards_by_load')
end
return found
