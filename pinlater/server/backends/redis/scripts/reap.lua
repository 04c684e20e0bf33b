-- IN_PROGRESS with an expired claim -> PENDING, one attempt less, or FAILED at the last; the longest expired first.
-- ARGV[2] how many claims to look at, [3] how many to pass over first; [4] age of the server and [5] its quiet period,
-- in ms: while it is younger, claims whose lease is longer than its age are spared.
-- Returns {claims looked at, spared, jobs PENDING again, jobs FAILED}.
-- with records earliest changes
local age, quiet = tonumber(ARGV[4]), tonumber(ARGV[5])
local members = redis.call('ZRANGEBYSCORE', CLAIMS, '-inf', NOW, 'LIMIT', ARGV[3], ARGV[2])
local spared, retried, failed = 0, 0, 0
for at, line in ipairs(read(JOBS, members)) do
  local _, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if not claim then
    leaving[#leaving + 1] = members[at]
  elseif age < quiet and math.min(tonumber(lease), quiet) > age then
    spared = spared + 1
  else
    local _, is_last =
      spend(members[at], false, NOW, priority, allowed, remaining, created, run_after, lease, bytes, claim)
    if is_last then
      failed = failed + 1
    else
      retried = retried + 1
    end
  end
end
carry_out()
correct('claims')
return {#members, spared, retried, failed}
