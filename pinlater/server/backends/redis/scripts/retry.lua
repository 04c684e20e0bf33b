-- FAILED -> PENDING with new attempts, the oldest first. ARGV[2] priority, [3] attempts, [4] run_after or empty for
-- now, [5] most jobs.
-- Returns how many.
-- with records changes
local priority, attempts = ARGV[2], ARGV[3]
local run_after = ARGV[4] ~= '' and ARGV[4] or NOW
local key = prefix .. 'f' .. priority
local most = tonumber(ARGV[5])
local members = most > 0 and redis.call('ZRANGE', key, 0, most - 1) or {}
for at, line in ipairs(read(JOBS, members)) do
  local _, _, allowed, _, created, _, _, lease, bytes, claim = string.match(line or '', RECORD)
  if claim then
    put(members[at], record(PENDING, priority, allowed, attempts, created, run_after, NOW, lease, bytes, claim))
    enter(prefix .. 'p' .. priority, run_after, members[at])
  end
end
if #members > 0 then
  redis.call('ZREMRANGEBYRANK', key, 0, #members - 1)
  all('ZREM', prefix .. 'F', members)
end
carry_out()
return #members
