-- What holds some queues' jobs back. KEYS[1] begins with what the keys of all queues of the shard begin with. ARGV[2] on:
-- names of queues.
-- Returns for each {"1" if it is paused, jobs a second, jobs running at once}, false for those that are not set; or false:
-- there is no such queue.
-- alone
-- with tags
local found = {}
for at = 2, #ARGV do
  local prefix = prefix_of(ARGV[at])
  found[#found + 1] = prefix and redis.call('HMGET', prefix .. 'settings', 'is_paused', 'jobs_per_second', 'max_running')
end
return found
