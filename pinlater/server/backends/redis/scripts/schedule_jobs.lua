-- Those of the given jobs that are PENDING -> due at another time, otherwise unchanged; one that waits for its key
-- stays in line. ARGV[2] idempotency key or empty, [3] how long to keep its result, in ms; [4] run_after, or empty:
-- those that are not due become due now; [5]: MessagePack, a list of {priority, id}. Returns the number of jobs
-- changed.
-- parts: when_full records members features failures key_rates key_entries key_turns keys due_index changes call_results
local known = find_result(ARGV[2])
if known then
  return known
end
local jobs = cmsgpack.unpack(ARGV[5])
local members = members_of(jobs, 2)
local moved, is_done = 0, {}
local lines = read_fields(JOBS, members)

local new_run_after = ARGV[4] ~= '' and ARGV[4] or NOW

-- Returns whether to change a job that is due at run_after.
local function is_changed(member, run_after)
  local due = keyed and keyed.movable_due(member, run_after) or tonumber(run_after)
  return due > tonumber(new_run_after) or ARGV[4] ~= '' and due >= 0 and due < tonumber(new_run_after)
end

for at, line in ipairs(lines) do
  local state, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if state == PENDING and tonumber(priority) == jobs[at][1] and not is_done[members[at]]
    and is_changed(members[at], run_after) then
    is_done[members[at]] = true
    write_record(members[at], record(PENDING, priority, allowed, remaining, created, new_run_after, NOW, lease, bytes, claim))
    add_member(prefix .. 'p' .. priority, new_run_after, members[at])
    if may_have_failed(allowed, remaining, bytes) then
      tried[#tried + 1] = members[at]
    end
    moved = moved + 1
  end
end
apply_and_turn(members, lines)
store_result(ARGV[2], ARGV[3], moved)
return moved
