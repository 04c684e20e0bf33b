-- Nothing -> PENDING, all jobs of a call or none.
-- ARGV[2] idempotency key or empty, [3] for how many ms its result is kept. [4]: MessagePack, a column each for priority,
-- run_after or nil, attempts, status, unique key or nil, then how many jobs; a run_after that a number would not hold is a
-- text. ARGV[5] on: their bodies.
-- Returns the id before the first one, then for each job that was there already: its place in the call, its
-- priority, its member.
-- with records keys results
local known = recall(ARGV[2])
if known then
  return known
end
local columns = cmsgpack.unpack(ARGV[4])
local priorities, run_afters, attempts, statuses, keys, count = unpack(columns)
local last = redis.call('INCRBY', KEYS[1] .. ':ids', count)
local first = last - count
local there = {string.format('%d', first)}
local records, bodies, texts, pending = {}, {}, {}, {}
local at = 0
-- Of the job before: in a batch, most are alike.
local known_priority, known_run_after, known_attempts, known_bytes, line, due, waiting
for number = 1, count do
  local body, priority, key = ARGV[number + 4], priorities[number], keys[number]
  if not is_there(key, number, there) then
    local member = member_of(first + number)
    if priority ~= known_priority or run_afters[number] ~= known_run_after or attempts[number] ~= known_attempts
      or #body ~= known_bytes then
      known_priority, known_run_after, known_attempts = priority, run_afters[number], attempts[number]
      known_bytes, due = #body, time_text(known_run_after)
      local allowed = string.format('%d', known_attempts)
      line = record(PENDING, priority, allowed, allowed, NOW, due, NOW, 0, known_bytes, '')
      waiting = pending[priority] or {}
      pending[priority] = waiting
    end
    keep_key(key, priority, member)
    if statuses[number] ~= '' then
      texts[#texts + 1] = member
      texts[#texts + 1] = statuses[number]
    end
    waiting[#waiting + 1] = due
    waiting[#waiting + 1] = member
    records[at + 1], records[at + 2] = member, line
    bodies[at + 1], bodies[at + 2] = member, body
    at = at + 2
  end
end
all('HSET', prefix .. 'bodies', bodies)
all('HSET', prefix .. 'status', texts)
all('HSET', JOBS, records)
for priority, list in pairs(pending) do
  all('ZADD', prefix .. 'p' .. priority, list)
end
keep(ARGV[2], ARGV[3], there)
return there
