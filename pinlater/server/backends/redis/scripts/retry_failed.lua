-- FAILED -> PENDING with new attempts, the oldest first. ARGV[2] idempotency key or empty, [3] how long to keep its
-- result, in ms; [4] most jobs that all calls with this key retry together; [5] priority, [6] attempts, [7] run_after
-- or empty for now, [8] limit.
-- Returns {number moved now, number moved by all calls with the key}.
-- parts: when_full records features failures key_rates key_entries key_turns keys due_index changes successes families inboxes links retry call_results
local before = find_result(ARGV[2]) or 0
local run_after = ARGV[7] ~= '' and ARGV[7] or NOW
local key, most = prefix .. 'f' .. ARGV[5], math.min(tonumber(ARGV[8]), ARGV[4] - before)
local members = most > 0 and redis.call('ZRANGE', key, 0, most - 1) or {}
local lines = read_fields(JOBS, members)
linked = open_links and open_links(members)
for at, line in ipairs(lines) do
  if line then
    retry(members[at], line, ARGV[6], run_after)
  end
end
if #members > 0 then
  redis.call('ZREMRANGEBYRANK', key, 0, #members - 1)
  call_in_chunks('ZREM', prefix .. 'F', members)
end
apply_and_turn(members, lines)
if linked then
  linked.tell()
end
store_result(ARGV[2], ARGV[3], before + #members)
return {#members, before + #members}
