-- IN_PROGRESS -> IN_PROGRESS with a new lease, or PENDING with no attempt spent; only for the holder of the claim.
-- ARGV[2]: MessagePack, a list of {id, priority, claim or nil, source, index of the body or nil, whether to move to
-- PENDING, run_after or nil (unchanged if there is a claim, otherwise now), attempts or nil, status to prepend, waits
-- or nil (the job sleeps until one is fulfilled, see links.lua), messages to store for it, each {name, id, index of the
-- payload}, names of messages to delete}. ARGV[3] on: bodies and payloads, then "links" if any job has waits or
-- messages to store. A job that is asked to stop becomes FAILED instead of PENDING, unless it has something to undo
-- according to the new body.
-- Returns {now, number of jobs changed, list indexes of those moved to PENDING, of those not to be moved that the claim
-- does not hold, of those to be moved that are due now (their waits are fulfilled, or they are asked to stop and keep
-- their place), of those that are held and asked to stop; number of other jobs let through, ended sleeps: see
-- links.lua}.
-- parts: when_full records members features failures key_rates key_entries key_turns keys due_index changes custom_status claim_source successes families inboxes links
local items = cmsgpack.unpack(ARGV[2])
local members, lines = members_of(items, 1), {}
local befores = read_fields(JOBS, members)
for at, line in ipairs(befores) do
  lines[members[at]] = line
end

local function is_held(claim, item)
  if item[3] then
    return claim == item[3]
  end
  return source_of(claim) == item[4]
end

-- Stores and deletes messages of a job that is held; call it before the links of the job are read, which it may change.
local function keep(member, item)
  local state, priority, _, _, _, _, _, _, _, claim = string.match(lines[member] or '', RECORD)
  if state == IN_PROGRESS and tonumber(priority) == item[2] and is_held(claim, item) then
    local inboxes = open_inboxes()
    for _, kept in ipairs(item[11]) do
      local messages = {[kept[1]] = {kept[2], '0', ARGV[kept[3] + 2]}}
      inboxes.deliver(inboxes.address_of(priority, member), messages)
    end
    for _, name in ipairs(item[12]) do
      inboxes.drop(member, name)
    end
  end
end
for at, item in ipairs(items) do
  if open_inboxes and #item[11] + #item[12] > 0 then
    keep(members[at], item)
  end
end
linked = open_links and open_links(members)

local changed, back, lost, fulfilled, asked = 0, {}, {}, {}, {}

-- IN_PROGRESS -> FAILED instead of PENDING.
local function stop(member, ...)
  lines[member] = end_job(member, ...)
  linked.note(member, (...), FAILED)
  over[#over + 1] = member
end

-- Records that a job is given back; returns true if it is due at once, since one of its waits is fulfilled.
local function note_back(at, member, priority, waits)
  back[#back + 1] = at - 1
  if linked then
    linked.note(member, priority, PENDING)
  end
  if waits and not linked.sleep(member, waits) then
    fulfilled[#fulfilled + 1] = at - 1
    return true
  end
end
for at, item in ipairs(items) do
  local member = members[at]
  local line = lines[member]
  local state, priority, allowed, remaining, created, planned, _, lease, bytes, claim = string.match(line or '', RECORD)
  if state == IN_PROGRESS and tonumber(priority) == item[2] and is_held(claim, item) then
    local body, is_back, attempts, status = item[5] and ARGV[item[5] + 2], item[6], item[8], item[9]
    local run_after = item[3] and not item[7] and planned or time_text(item[7])
    if (is_back or attempts) and may_have_failed(allowed, remaining, bytes) then
      tried[#tried + 1] = member
    end
    if body then
      redis.call('HSET', prefix .. 'bodies', member, body)
      bytes = string.match(bytes, '^0%d') and '0' .. #body or tostring(#body)
    end
    if is_back and attempts == tonumber(allowed) then
      begin_status(member, status)
    elseif status ~= '' then
      extend_status(member, status, '')
    end
    if attempts then
      bytes = string.format('%d', bytes)
      allowed = string.format('%d', attempts)
      remaining = allowed
    end
    local is_asked = linked and linked.is_cancelled(member)
    if is_asked and is_back and linked.is_due_at_once(member) then
      run_after = planned
      fulfilled[#fulfilled + 1] = at - 1
    end
    if is_back and is_asked and linked.is_to_end(member) then
      stop(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
    else
      if is_back then
        state, claim = PENDING, ''
        run_after = note_back(at, member, priority, not is_asked and item[10]) and NOW or run_after
        add_member(prefix .. 'p' .. priority, run_after, member)
        leaving[#leaving + 1] = member
      else
        add_member(CLAIMS, string.format('%d', now + lease), member)
        asked[#asked + 1] = is_asked and at - 1 or nil
      end
      lines[member] = record(state, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
      write_record(member, lines[member])
    end
    changed = changed + 1
  elseif not item[6] then
    lost[#lost + 1] = at - 1
  end
end
local through = apply_and_turn(members, befores)
return {NOW, changed, back, lost, fulfilled, asked, through, linked and linked.tell()}
