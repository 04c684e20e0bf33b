-- Nothing -> PENDING, all jobs of a call or none.
-- ARGV[2] idempotency key or empty, [3] how long its result is kept, in ms. [4]: MessagePack, one column each for
-- priority, run_after or nil, attempts, status, unique key or nil, then the rules of jobs with one (number of the job in
-- the call -> {until_started, period in ms}), then the number of jobs; a run_after beyond 2^53 is a string. ARGV[5] on: the bodies.
-- Returns the id before the first new one, then for each duplicate of an existing job: its index in the call, and
-- the priority and member of the existing job.
-- parts: records unique_keys call_results
local known = find_result(ARGV[2])
if known then
  return known
end
local columns = cmsgpack.unpack(ARGV[4])
local priorities, run_afters, attempts, statuses, keys, rules, count = unpack(columns)
local last = redis.call('INCRBY', KEYS[1] .. ':ids', count)
local first = last - count
local result = {string.format('%d', first)}
local records, bodies, texts, pending = {}, {}, {}, {}
local at = 0
-- Of the job before: in a batch, most are groups.
local known_priority, known_run_after, known_attempts, known_bytes, line, due, scores
for number = 1, count do
  local body, priority, key = ARGV[number + 4], priorities[number], keys[number]
  if not is_duplicate(key, number, result, rules[number]) then
    local member = member_of(first + number)
    if priority ~= known_priority or run_afters[number] ~= known_run_after or attempts[number] ~= known_attempts
      or #body ~= known_bytes then
      known_priority, known_run_after, known_attempts = priority, run_afters[number], attempts[number]
      known_bytes, due = #body, time_text(known_run_after)
      local allowed = string.format('%d', known_attempts)
      line = record(PENDING, priority, allowed, allowed, NOW, due, NOW, 0, known_bytes, '')
      scores = pending[priority] or {}
      pending[priority] = scores
    end
    store_key(key, priority, member, rules[number])
    if statuses[number] ~= '' then
      texts[#texts + 1] = member
      texts[#texts + 1] = statuses[number]
    end
    scores[#scores + 1] = due
    scores[#scores + 1] = member
    records[at + 1], records[at + 2] = member, line
    bodies[at + 1], bodies[at + 2] = member, body
    at = at + 2
  end
end
call_in_chunks('HSET', prefix .. 'bodies', bodies)
call_in_chunks('HSET', prefix .. 'status', texts)
call_in_chunks('HSET', JOBS, records)
for priority, list in pairs(pending) do
  call_in_chunks('ZADD', prefix .. 'p' .. priority, list)
end
store_result(ARGV[2], ARGV[3], result)
return result
