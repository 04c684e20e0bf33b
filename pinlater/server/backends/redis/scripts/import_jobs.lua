-- Nothing -> the state and history that a job had in another store; all jobs of a call or none.
-- ARGV[2] idempotency key or empty, [3] how long to keep its result, in ms. [4]: MessagePack, a list of {priority,
-- state (never IN_PROGRESS), attempts allowed, attempts remaining, status, created, run_after, updated, unique key or
-- nil, shared key as {text, limit or nil, rate or nil} or nil, index of the result or nil, whether it was cancelled, id
-- of the failure group or nil, run time in ms or nil}; a time beyond 2^53 is a string. [5]: MessagePack {budget,
-- groups}, see failure_groups.lua.
-- ARGV[6] on: the bodies, the results, then "keyed" if any of the jobs has a shared key.
-- Returns the same as enqueue.
-- parts: records imported_features failures key_rates key_entries key_turns keys new_keys due_index changes unique_keys call_results failure_groups
local known = find_result(ARGV[2])
if known then
  return known
end
local jobs = cmsgpack.unpack(ARGV[4])
local first = redis.call('INCRBY', KEYS[1] .. ':ids', #jobs) - #jobs
local result = {string.format('%d', first)}
local KINDS = {[PENDING] = 'p', [SUCCEEDED] = 's', [FAILED] = 'f'}
local bodies, statuses, results, links, failing = {}, {}, {}, {}, {}
local kept = keep_groups(unpack(cmsgpack.unpack(ARGV[5])))
for number, job in ipairs(jobs) do
  local priority, state, status, key = job[1], string.format('%d', job[2]), job[5], job[9]
  if not is_duplicate(key, number, result, nil, true) then
    local member, body = member_of(first + number), ARGV[number + 5]
    local allowed, remaining = string.format('%d', job[3]), string.format('%d', job[4])
    local created, run_after, updated = time_text(job[6]), time_text(job[7]), time_text(job[8])
    store_key(key, priority, member)
    if job[10] then
      if state == PENDING then
        run_after = keyed.add(member, job[10][1], job[10][2], run_after, job[10][3], true)
      else
        keyed.remember(member, job[10][1], job[10][2], job[10][3])
      end
    end
    local bytes = ((job[4] > job[3] or job[13] and job[4] == job[3]) and '0' or '') .. #body
    local lease = job[14] and string.format('0%d', job[14]) or 0
    write_record(member, record(state, priority, allowed, remaining, created, run_after, updated, lease, bytes, ''))
    add_member(prefix .. KINDS[state] .. priority, run_after, member)
    if state ~= PENDING then
      add_member(prefix .. string.upper(KINDS[state]), updated, member)
    end
    bodies[#bodies + 1] = member
    bodies[#bodies + 1] = body
    if status ~= '' then
      statuses[#statuses + 1] = member
      statuses[#statuses + 1] = status
    end
    if job[11] then
      results[#results + 1] = member
      results[#results + 1] = ARGV[job[11] + 5]
    end
    if job[12] then
      links[#links + 1] = member
      links[#links + 1] = cmsgpack.pack({c = true})
    end
    if job[13] then
      failing[#failing + 1] = member
      failing[#failing + 1] = kept[job[13]]
      tried[#tried + 1] = member
    end
  end
end
call_in_chunks('HSET', prefix .. 'bodies', bodies)
call_in_chunks('HSET', prefix .. 'status', statuses)
call_in_chunks('HSET', prefix .. 'results', results)
call_in_chunks('HSET', prefix .. 'links', links)
apply_changes()
if keyed then
  keyed.store_new()
  keyed.turn()
end
call_in_chunks('HSET', prefix .. 'failing', failing)
settle_changed()
store_result(ARGV[2], ARGV[3], result)
return result
