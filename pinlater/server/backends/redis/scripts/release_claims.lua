-- IN_PROGRESS under a claim, or under any claim of a source -> PENDING, no attempt spent, or FAILED if it is asked to
-- stop and has nothing to undo; one page of the claims.
-- ARGV[2] "source" or "claim", [3] its value, [4] cursor, "0" to start, [5] number of claims to read; [6]:
-- MessagePack, a list of ids of jobs that stay claimed.
-- Returns {cursor of the next page, "0" at the end; number of jobs released; ended sleeps: see links.lua}.
-- parts: when_full records features failures key_rates key_entries key_turns keys due_index changes claim_source successes families inboxes links
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
linked = open_links and open_links(members)
for at, line in ipairs(lines) do
  local member = members[at]
  local _, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if claim and not spared[member] and wanted == (is_by_source and source_of(claim) or claim) then
    local state = PENDING
    if linked and linked.is_to_end(member) then
      state = FAILED
      over[#over + 1] = member
      end_job(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
    else
      write_record(member, record(PENDING, priority, allowed, remaining, created, run_after, NOW, lease, bytes, ''))
      add_member(prefix .. 'p' .. priority, run_after, member)
      leaving[#leaving + 1] = member
      if may_have_failed(allowed, remaining, bytes) then
        tried[#tried + 1] = member
      end
    end
    if linked then
      linked.note(member, priority, state)
    end
    released = released + 1
  end
end
apply_and_turn(members, lines)
return {step[1], released, linked and linked.tell()}
