-- Finds when the first PENDING job of each priority falls due, for several queues. KEYS[1] is the prefix of the shard's
-- keys.
-- ARGV[2] priority levels; [3] on: names of queues.
-- Returns the present time; then for each queue a list with a string per priority, empty if it has no such job; or an
-- empty list if no priority has one; or false if there is no such queue.
-- standalone
-- parts: clock queue_prefix
local levels = tonumber(ARGV[2])
local answer = {NOW}
for at = 3, #ARGV do
  local prefix = prefix_of(ARGV[at])
  local keys, due = {}, prefix and {}
  for priority = 1, prefix and levels or 0 do
    keys[priority] = prefix .. 'p' .. priority
  end
  if prefix and redis.call('EXISTS', unpack(keys)) > 0 then
    for priority, key in ipairs(keys) do
      local found = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
      due[priority] = found[2] and string.format('%.0f', tonumber(found[2])) or ''
    end
  end
  answer[#answer + 1] = due
end
return answer
