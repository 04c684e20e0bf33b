-- Deletes failure groups of a queue that have been empty for long. ARGV[2] how long after a group's last failure, in
-- ms; [3] the same if the queue has at least [4] groups; [5] when to check again, in ms from now; [6] how many jobs of
-- each set of a group to check; [7] the number of priorities.
-- Also removes jobs from sets of a group that do not fit their state: servers of version 0.1 change and delete the jobs
-- alone. Sooner or later these are the first of their set, since jobs that are due get claimed. If all jobs checked in
-- a set were wrong, the next check is due at once.
-- Returns the number of groups deleted.
-- parts: when_full records due_index failing_jobs failures
local last = redis.call('ZRANGE', prefix .. 'failed_last', 0, -1, 'WITHSCORES')
local idle = tonumber(#last / 2 >= tonumber(ARGV[4]) and ARGV[3] or ARGV[2])
local gone, outdated = {}, {}
local look_in = ARGV[5]
local function check(key, state)
  local members, wrong = redis.call('ZRANGE', key, 0, ARGV[6] - 1), {}
  for at, line in ipairs(read_fields(JOBS, members)) do
    if not line or string.sub(line, 1, 1) ~= state then
      wrong[#wrong + 1] = members[at]
      outdated[#outdated + 1] = members[at]
    end
  end
  call_in_chunks('ZREM', key, wrong)
  if #wrong == tonumber(ARGV[6]) then
    look_in = 0
  end
end
for at = 1, #last, 2 do
  check(prefix .. 'g' .. last[at] .. ':p', PENDING)
  check(prefix .. 'g' .. last[at] .. ':f', FAILED)
end
for priority = 1, ARGV[7] do
  call_in_chunks('ZREM', prefix .. 'r' .. priority, outdated)
end
settle_failing(prefix, outdated)
for at = 1, #last, 2 do
  local group = prefix .. 'g' .. last[at]
  if now - last[at + 1] >= idle and redis.call('EXISTS', group .. ':p', group .. ':f') == 0 then
    gone[#gone + 1] = last[at]
  end
end
call_in_chunks('ZREM', prefix .. 'failed_last', gone)
call_in_chunks('HDEL', prefix .. 'failures', gone)
if #gone < #last / 2 then
  redis.call('ZADD', SHARD .. '}:earliest:failures', now + look_in, QUEUE)
else
  redis.call('ZREM', SHARD .. '}:earliest:failures', QUEUE)
end
return #gone
