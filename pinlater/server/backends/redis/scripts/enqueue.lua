-- Nothing -> PENDING, all jobs of a call or none.
-- ARGV[2] idempotency key or empty, [3] how long to keep its result, in ms. [4] the number of jobs. [5] runs of similar
-- jobs: how many, their priority, run_after or nothing, attempts, and a comma. [6] empty, or MessagePack {rare fields
-- of jobs or nil, families of jobs with parents, see parents.lua}. The rare fields map the number of a job in the call
-- to {status, unique key or nil, its rule or nil, shared key or nil}. A rule is {until_started, period in ms, 1 for
-- replace or 2 for debounce, longest delay in ms or nil}, a shared key is {text, limit or nil, rate or nil}.
-- ARGV[7] on: the bodies, then "keyed" if any job has a shared key or a rule, "links" if any has a parent, or "keyed
-- links" for both.
-- Returns the id before the first new one, then for each duplicate of an existing job: its index in the call, and the
-- priority and member of the existing job.
-- parts: records new_features failures key_rates key_entries key_turns keys new_keys unique_keys successes families inboxes parents call_results
local known = find_result(ARGV[2])
if known then
  return known
end
local extras, related = nil, {} -- {}: without ARGV[6], the last body may still be the text "links"
if ARGV[6] ~= '' then
  extras, related = unpack(cmsgpack.unpack(ARGV[6]), 1, 2)
end
if families then
  local refused = families.check(related)
  if refused then
    return {err = refused}
  end
end
local first = redis.call('INCRBY', KEYS[1] .. ':ids', ARGV[4]) - ARGV[4]
local result = {string.format('%d', first)}
local records, bodies, pending, texts, at = {}, {}, {}, extras and {}, 0

local function store()
  call_in_chunks('HSET', prefix .. 'bodies', bodies)
  if texts then
    call_in_chunks('HSET', prefix .. 'status', texts)
  end
  call_in_chunks('HSET', JOBS, records)
  for priority, list in pairs(pending) do
    call_in_chunks('ZADD', prefix .. 'p' .. priority, list)
  end
  if keyed then
    keyed.store_new()
  end
end

-- Handles the rare fields of a job. Returns whether to store the job, and its run_after if it waits for its key.
local settle
if extras then
  -- Returns when the holder of a key is due after a new job has debounced it.
  local function debounced_due(run_after, created, longest)
    local due = tonumber(run_after) or now
    if longest then
      due = math.min(due, created + longest)
    elseif due > 2^53 then
      return run_after
    end
    return string.format('%d', math.max(due, now))
  end

  -- Gives a job that was never claimed the body, attempts and status of a new one with its unique key, and with
  -- debounce also its time.
  local function replace(member, rule, body, status, new_run_after, allowed)
    store()  -- the job may be one of this call
    records, bodies, pending, texts, at = {}, {}, {}, {}, 0
    local line = redis.call('HGET', JOBS, member) or ''
    local state, priority, was_allowed, remaining, created, run_after, _, lease, bytes = string.match(line, RECORD)
    if state ~= PENDING or lease ~= '0' then
      return
    end
    if may_have_failed(was_allowed, remaining, bytes) then -- elsewhere, before it was imported
      settle_failing(prefix, {member}, true)
    end
    if rule[3] == 2 then
      local due = debounced_due(new_run_after, created, rule[4])
      run_after = keyed and keyed.put_off(member, run_after, due) or due
      redis.call('ZADD', prefix .. 'p' .. priority, run_after, member)
    end
    redis.call('HSET', JOBS, member, record(PENDING, priority, allowed, allowed, created, run_after, NOW, 0, #body, ''))
    redis.call('HSET', prefix .. 'bodies', member, body)
    redis.call('HDEL', prefix .. 'status', member)
    if status ~= '' then
      redis.call('HSET', prefix .. 'status', member, status)
    end
    if keyed then
      keyed.note_and_turn({member}, {line})
    end
  end

  function settle(number, member, body, priority, run_after, allowed)
    local status, key, rule, shared = unpack(extras[number], 1, 4)
    local is_known, holder = is_duplicate(key, number, result, rule)
    if is_known then
      if rule and rule[3] > 0 then
        replace(holder, rule, body, status, run_after, allowed)
      end
      return false
    end
    store_key(key, priority, member, rule)
    if status ~= '' then
      texts[#texts + 1] = member
      texts[#texts + 1] = status
    end
    return true, shared and keyed.add(member, shared[1], shared[2], run_after ~= '' and run_after or NOW, shared[3])
  end
end

local number = 0
for alike, priority, run_after, allowed in string.gmatch(ARGV[5], '(%d+) (%d+) (%-?%d*) (%-?%d+),') do
  local due_of_run = run_after ~= '' and run_after or NOW
  local known_due, known_bytes, line
  for _ = 1, tonumber(alike) do
    number = number + 1
    local body, member, is_new, due = ARGV[number + 6], member_of(first + number), true, nil
    if extras and extras[number] then
      is_new, due = settle(number, member, body, priority, run_after, allowed)
    end
    if is_new then
      due = due or due_of_run
      if due ~= known_due or #body ~= known_bytes then  -- in a batch, most records are the same
        known_due, known_bytes = due, #body
        line = record(PENDING, priority, allowed, allowed, NOW, due, NOW, '0', string.format('%d', known_bytes), '')
      end
      local scores = pending[priority]
      if not scores then
        scores = {}
        pending[priority] = scores
      end
      scores[#scores + 1] = due
      scores[#scores + 1] = member
      records[at + 1], records[at + 2] = member, line
      bodies[at + 1], bodies[at + 2] = member, body
      at = at + 2
    elseif families then
      families.skip(number)
    end
  end
end
store()
if families then
  families.store(first)
end
if keyed then
  keyed.turn()
end
store_result(ARGV[2], ARGV[3], result)
return result
