-- Nothing -> PENDING, all jobs of a call or none.
-- ARGV[2] idempotency key or empty, [3] how long its result is kept, in ms. [4]: MessagePack, one column each for
-- priority, run_after or nil, attempts, status, unique key or nil, then the rules of jobs with one (number of the job
-- in the call -> {until_started, period in ms, 1: replace or 2: debounce, longest delay in ms or nil}), then the keys
-- that jobs share (number -> {text, limit or nil, rate or nil}), then parents (number -> as in links.lua), then the number of jobs;
-- a run_after beyond 2^53 is a string. ARGV[5] on: the bodies, then "keyed" if any job shares a key or has a rule,
-- "links" if any has a parent, or "keyed links"; only then there are keys and parents.
-- Returns the id before the first new one, then for each duplicate of an existing job: its index in the call, and the
-- priority and member of the existing job.
-- parts: records new_features failures key_rates keys unique_keys inboxes parents call_results
local known = find_result(ARGV[2])
if known then
  return known
end
local columns = cmsgpack.unpack(ARGV[4])
local priorities, run_afters, attempts, statuses, keys, rules, shared_keys, parents, count = unpack(columns)
local refused = families and families.check(parents)
if refused then
  return {err = refused}
end
local last = redis.call('INCRBY', KEYS[1] .. ':ids', count)
local first = last - count
local result = {string.format('%d', first)}
local records, bodies, texts, pending = {}, {}, {}, {}
local at = 0
-- Of the job before: in a batch, most are groups.
local known_priority, known_run_after, known_attempts, known_bytes, line, due, scores

local function store()
  call_in_chunks('HSET', prefix .. 'bodies', bodies)
  call_in_chunks('HSET', prefix .. 'status', texts)
  call_in_chunks('HSET', JOBS, records)
  for priority, list in pairs(pending) do
    call_in_chunks('ZADD', prefix .. 'p' .. priority, list)
  end
end

-- Returns when a job is due that is put off by another one of its key.
local function debounced_due(run_after, created, longest)
  if type(run_after) == 'string' and not longest then
    return run_after
  end
  local due = tonumber(run_after) or now
  if longest then
    due = math.min(due, created + longest)
  end
  return string.format('%d', math.max(due, now))
end

-- Gives a job that was never claimed body, attempts and status of another one of its key, and its time with debounce.
local function replace(member, number, rule)
  store()  -- it may be one of this call
  records, bodies, texts, pending, at, known_priority = {}, {}, {}, {}, 0, nil
  local line = redis.call('HGET', JOBS, member) or ''
  local state, priority, _, _, created, run_after, _, lease = string.match(line, RECORD)
  if state ~= PENDING or lease ~= '0' then
    return
  end
  if rule[3] == 2 then
    run_after = debounced_due(run_afters[number], created, rule[4])
    redis.call('ZADD', prefix .. 'p' .. priority, run_after, member)
  end
  local body, allowed = ARGV[number + 4], string.format('%d', attempts[number])
  redis.call('HSET', JOBS, member, record(PENDING, priority, allowed, allowed, created, run_after, NOW, 0, #body, ''))
  redis.call('HSET', prefix .. 'bodies', member, body)
  redis.call('HDEL', prefix .. 'status', member)
  if statuses[number] ~= '' then
    redis.call('HSET', prefix .. 'status', member, statuses[number])
  end
  if keyed then
    keyed.note_and_turn({member}, {line})
  end
end

for number = 1, count do
  local body, priority, key, rule = ARGV[number + 4], priorities[number], keys[number], rules[number]
  local shared = keyed and shared_keys[number]
  local is_known, holder = is_duplicate(key, number, result, rule)
  if is_known and rule and rule[3] > 0 then
    replace(holder, number, rule)
  elseif not is_known then
    local member = member_of(first + number)
    if priority ~= known_priority or run_afters[number] ~= known_run_after or attempts[number] ~= known_attempts
      or #body ~= known_bytes or shared then
      known_priority, known_run_after, known_attempts = priority, run_afters[number], attempts[number]
      known_bytes, due = #body, time_text(known_run_after)
      if shared then
        due, known_bytes = keyed.add(member, shared[1], shared[2], due, shared[3]), nil
      end
      local allowed = string.format('%d', known_attempts)
      line = record(PENDING, priority, allowed, allowed, NOW, due, NOW, 0, #body, '')
      scores = pending[priority] or {}
      pending[priority] = scores
    end
    store_key(key, priority, member, rule)
    if families then
      families.add(parents[number], priority, member)
    end
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
store()
if families then
  families.store()
end
if keyed then
  keyed.turn()
end
store_result(ARGV[2], ARGV[3], result)
return result
