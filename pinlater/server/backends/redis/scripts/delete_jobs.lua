-- Jobs that are still in a state -> deleted. ARGV[2] idempotency key or empty, [3] how long to keep its result, in ms;
-- [4] most jobs that all calls with this key delete together, or empty: the first call deletes all; [5] state, [6]
-- priority; [7]: MessagePack, a list of ids.
-- Returns {number deleted now, number deleted by all calls with the key, ended sleeps: see links.lua}.
-- parts: when_full records members features failures key_rates key_entries key_turns keys due_index changes successes families inboxes links forget_links call_results
local before, most = find_result(ARGV[2]), tonumber(ARGV[4])
if before and not most then
  return {0, before}
end
before = before or 0
local members, deleted, lines, seen = members_of(cmsgpack.unpack(ARGV[7])), {}, {}, {}
for at, line in ipairs(read_fields(JOBS, members)) do
  local state, priority = string.match(line or '', '^(%d) (%d+)')
  if state == ARGV[5] and priority == ARGV[6] and not seen[members[at]] and (not most or before + #deleted < most) then
    seen[members[at]] = true
    deleted[#deleted + 1] = members[at]
    lines[#deleted] = line
  end
end
local places = {
  [PENDING] = {'p' .. ARGV[6]}, [IN_PROGRESS] = {'claims'}, [SUCCEEDED] = {'s' .. ARGV[6], 'S'},
  [FAILED] = {'f' .. ARGV[6], 'F'}
}
for _, place in ipairs(places[ARGV[5]]) do
  call_in_chunks('ZREM', prefix .. place, deleted)
end
if ARGV[5] < SUCCEEDED then
  end_periods(deleted)
end
delete_unique_keys(deleted)
linked = open_links and open_links(deleted)
if linked then
  for at = 1, ARGV[5] < SUCCEEDED and #deleted or 0 do
    linked.note_deleted(deleted[at], ARGV[6])
  end
end
if ARGV[5] == SUCCEEDED then
  call_in_chunks('HDEL', prefix .. 'results', deleted)
else
  settle_failing(prefix, deleted, true)
end
call_in_chunks('HDEL', JOBS, deleted)
call_in_chunks('HDEL', prefix .. 'bodies', deleted)
call_in_chunks('HDEL', prefix .. 'status', deleted)
if keyed then
  keyed.note_and_turn(deleted, lines)
  call_in_chunks('HDEL', prefix .. 'job_keys', deleted)
  call_in_chunks('HDEL', prefix .. 'job_rates', deleted)
end
local woken
if linked then
  woken = linked.tell()
  forget_links(prefix, deleted)
  forget_families(deleted)
end
store_result(ARGV[2], ARGV[3], before + #deleted)
return {#deleted, before + #deleted, woken}
