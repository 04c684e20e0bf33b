-- Those of some jobs that are FAILED -> PENDING with new attempts. ARGV[2] attempts, [3] run_after or empty for now, [4]:
-- MessagePack, a list of {priority, id}.
-- Returns how many.
-- with records changes again
local run_after = ARGV[3] ~= '' and ARGV[3] or NOW
local jobs, members = cmsgpack.unpack(ARGV[4]), {}
for at, job in ipairs(jobs) do
  members[at] = member_of(job[2])
end
local moved = 0
for at, line in ipairs(read(JOBS, members)) do
  local state, priority = string.match(line or '', '^(%d) (%d+)')
  -- A job that is named twice is no more among the failed ones the second time.
  if state == FAILED and tonumber(priority) == jobs[at][1]
    and redis.call('ZREM', prefix .. 'f' .. priority, members[at]) == 1 then
    redis.call('ZREM', prefix .. 'F', members[at])
    again(members[at], line, ARGV[2], run_after)
    moved = moved + 1
  end
end
carry_out()
return moved
