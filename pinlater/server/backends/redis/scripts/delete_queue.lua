-- A queue with all its jobs -> none, which is not listed. Redis frees large keys in a background thread, so millions of jobs take no longer.
-- Descriptors of this generation find nothing in the next one. If there are links or parents, these stay for drop_links,
-- with the records and statuses of jobs.
-- standalone
-- parts: when_full due_index unlist queue any_links
local keys = {KEYS[1], CLAIMS}
local names = {
  'bodies', 'unique', 'keys', 'job_keys', 'turns', 'settings', 'bucket', 'lock', 'results', 'failing', 'failures',
  'failed_last', 'key_rates', 'key_rate_looks', 'job_rates', 'S', 'F'
}
if HAS_LINKS then
  redis.call('SADD', SHARD .. '}:leftovers', prefix)
else
  names[#names + 1] = 'jobs'
  names[#names + 1] = 'status'
end
for _, name in ipairs(names) do
  keys[#keys + 1] = prefix .. name
end
for _, group in ipairs(redis.call('HKEYS', prefix .. 'failures')) do
  keys[#keys + 1] = prefix .. 'g' .. group .. ':p'
  keys[#keys + 1] = prefix .. 'g' .. group .. ':f'
end
for priority = 1, 127 do
  for _, kind in ipairs({'p', 's', 'f', 'r'}) do
    keys[#keys + 1] = prefix .. kind .. priority
  end
end
redis.call('UNLINK', unpack(keys))
redis.call('INCR', SHARD .. '}:queues:changes')
redis.call('ZREM', SHARD .. '}:earliest:failures', QUEUE)
for _, kind in ipairs(DUE_KINDS) do
  redis.call('ZREM', SHARD .. '}:earliest:' .. kind, QUEUE)
end
return 1
