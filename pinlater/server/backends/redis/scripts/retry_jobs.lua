-- Those of the given jobs that are FAILED -> PENDING with new attempts. ARGV[2] idempotency key or empty, [3] how long
-- to keep its result, in ms; [4] attempts, [5] run_after or empty for now, [6]: MessagePack, a list of {priority, id}.
-- Returns the number of jobs moved.
-- parts: when_full records members features failures key_rates key_entries key_turns keys due_index changes successes families inboxes links retry call_results
local known = find_result(ARGV[2])
if known then
  return known
end
local run_after = ARGV[5] ~= '' and ARGV[5] or NOW
local jobs = cmsgpack.unpack(ARGV[6])
local members = members_of(jobs, 2)
local moved = 0
local lines = read_fields(JOBS, members)
linked = open_links and open_links(members)
for at, line in ipairs(lines) do
  local state, priority = string.match(line or '', '^(%d) (%d+)')
  -- A job that is listed twice is no longer in the set of failed jobs the second time.
  if state == FAILED and tonumber(priority) == jobs[at][1]
    and redis.call('ZREM', prefix .. 'f' .. priority, members[at]) == 1 then
    redis.call('ZREM', prefix .. 'F', members[at])
    retry(members[at], line, ARGV[4], run_after)
    moved = moved + 1
  end
end
apply_and_turn(members, lines)
if linked then
  linked.tell()
end
store_result(ARGV[2], ARGV[3], moved)
return moved
