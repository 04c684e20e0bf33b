-- Reads the failure groups of queues. ARGV[2] on: the names of the queues.
-- Returns for each queue a flat list with id, MessagePack {class, error, example, first}, last, number of FAILED jobs
-- and number of PENDING jobs of each group; false if there is no such queue.
-- standalone
-- parts: clock queue_prefix
local found = {}
for at = 2, #ARGV do
  local prefix = prefix_of(ARGV[at])
  local groups = prefix and {} or false
  local last = prefix and redis.call('ZRANGE', prefix .. 'failed_last', 0, -1, 'WITHSCORES') or {}
  for place = 1, #last, 2 do
    local key = prefix .. 'g' .. last[place]
    groups[#groups + 1] = last[place]
    groups[#groups + 1] = redis.call('HGET', prefix .. 'failures', last[place])
    groups[#groups + 1] = last[place + 1]
    groups[#groups + 1] = redis.call('ZCARD', key .. ':f')
    groups[#groups + 1] = redis.call('ZCARD', key .. ':p')
  end
  found[at - 1] = groups
end
return found
