-- FAILED -> PENDING with new attempts, the oldest first. ARGV[2] idempotency key or empty, [3] for how many ms its result
-- is kept, [4] most jobs in all calls with this key; [5] priority, [6] attempts, [7] run_after or empty for now, [8] most
-- jobs.
-- Returns how many, and how many all calls with the key have moved.
-- with records earliest changes again results
local before = recall(ARGV[2]) or 0
local run_after = ARGV[7] ~= '' and ARGV[7] or NOW
local key, most = prefix .. 'f' .. ARGV[5], math.min(tonumber(ARGV[8]), ARGV[4] - before)
local members = most > 0 and redis.call('ZRANGE', key, 0, most - 1) or {}
for at, line in ipairs(read(JOBS, members)) do
  if line then
    again(members[at], line, ARGV[6], run_after)
  end
end
if #members > 0 then
  redis.call('ZREMRANGEBYRANK', key, 0, #members - 1)
  all('ZREM', prefix .. 'F', members)
end
carry_out()
keep(ARGV[2], ARGV[3], before + #members)
return {#members, before + #members}
