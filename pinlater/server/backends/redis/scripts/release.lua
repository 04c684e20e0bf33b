-- IN_PROGRESS under any claim of a source, or under one claim -> PENDING, no attempt spent; part of a walk over claims.
-- ARGV[2] "source" or "claim", [3] which, [4] cursor of the walk, "0" to begin, [5] how many claims to look at;
-- [6]: MessagePack, a list of ids of jobs that stay claimed.
-- Returns {cursor to go on from, "0" at the end; how many jobs went back}.
-- with records earliest changes source
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
for at, line in ipairs(read(JOBS, members)) do
  local member = members[at]
  local _, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if claim and not spared[member] and wanted == (is_by_source and source_of(claim) or claim) then
    put(member, record(PENDING, priority, allowed, remaining, created, run_after, NOW, lease, bytes, ''))
    enter(prefix .. 'p' .. priority, run_after, member)
    leaving[#leaving + 1] = member
    released = released + 1
  end
end
carry_out()
return {step[1], released}
