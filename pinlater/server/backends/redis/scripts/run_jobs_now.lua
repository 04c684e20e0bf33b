-- Those of the given jobs that are PENDING and not due -> due now, otherwise unchanged. ARGV[2] idempotency key or
-- empty, [3] how long its result is kept, in ms; [4]: MessagePack, a list of {priority, id}. Returns the number of
-- jobs changed.
-- parts: records due_index changes call_results
local known = find_result(ARGV[2])
if known then
  return known
end
local jobs, members = cmsgpack.unpack(ARGV[4]), {}
for at, job in ipairs(jobs) do
  members[at] = member_of(job[2])
end
local moved, is_done = 0, {}
for at, line in ipairs(read_fields(JOBS, members)) do
  local state, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if state == PENDING and tonumber(priority) == jobs[at][1] and tonumber(run_after) > now and not is_done[members[at]] then
    is_done[members[at]] = true
    write_record(members[at], record(PENDING, priority, allowed, remaining, created, NOW, NOW, lease, bytes, claim))
    add_member(prefix .. 'p' .. priority, NOW, members[at])
    moved = moved + 1
  end
end
apply_changes()
store_result(ARGV[2], ARGV[3], moved)
return moved
