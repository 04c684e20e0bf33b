-- IN_PROGRESS under a claim, or under any claim of a source -> PENDING, no attempt spent; for one page of the
-- claims.
-- ARGV[2] "source" or "claim", [3] its value, [4] cursor, "0" to start, [5] number of claims to read; [6]:
-- MessagePack, a list of ids of jobs that stay claimed.
-- Returns {cursor of the next page, "0" at the end; number of jobs released}.
-- parts: records has_keys keys due_index changes claim_source
local is_by_source, wanted = ARGV[2] == 'source', ARGV[3]
local step = redis.call('ZSCAN', CLAIMS, ARGV[4], 'COUNT', ARGV[5])
local members = {}
for at = 1, #step[2], 2 do
  members[#members + 1] = step[2][at]
end
local spared = {}
for _, id in ipairs(cmsgpack.unpack(ARGV[6])) do
  spared[member_of(id)] = true
end
local released = 0
local lines = read_fields(JOBS, members)
for at, line in ipairs(lines) do
  local member = members[at]
  local _, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if claim and not spared[member] and wanted == (is_by_source and source_of(claim) or claim) then
    write_record(member, record(PENDING, priority, allowed, remaining, created, run_after, NOW, lease, bytes, ''))
    add_member(prefix .. 'p' .. priority, run_after, member)
    leaving[#leaving + 1] = member
    released = released + 1
  end
end
apply_changes()
if keyed then
  keyed.note_and_turn(members, lines)
end
return {step[1], released}
