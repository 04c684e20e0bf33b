-- Forgets failure groups of a queue that have been empty for long. ARGV[2] how long after its last failure, in ms; [3]
-- the same if the queue has at least as many groups as [4]; [5] when to look again, in ms from now; [6] how many jobs of
-- a group to look at; [7] the number of priorities.
-- Also takes jobs out that are not as their group has them: servers of version 0.1 change and delete jobs only. Those are
-- the first of their set sooner or later, since jobs that are due are claimed. If all are of that kind, it looks again at
-- once.
-- Returns the number of groups forgotten.
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
