-- Those of some jobs that are PENDING and not due -> due now; all else of them stays. ARGV[2] idempotency key or empty, [3]
-- for how many ms its result is kept; [4]: MessagePack, a list of {priority, id}. Returns how many.
-- with records earliest changes results
local known = recall(ARGV[2])
if known then
  return known
end
local jobs, members = cmsgpack.unpack(ARGV[4]), {}
for at, job in ipairs(jobs) do
  members[at] = member_of(job[2])
end
local moved, is_done = 0, {}
for at, line in ipairs(read(JOBS, members)) do
  local state, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if state == PENDING and tonumber(priority) == jobs[at][1] and tonumber(run_after) > now and not is_done[members[at]] then
    is_done[members[at]] = true
    put(members[at], record(PENDING, priority, allowed, remaining, created, NOW, NOW, lease, bytes, claim))
    enter(prefix .. 'p' .. priority, NOW, members[at])
    moved = moved + 1
  end
end
carry_out()
keep(ARGV[2], ARGV[3], moved)
return moved
