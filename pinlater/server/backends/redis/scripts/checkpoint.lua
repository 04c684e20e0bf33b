-- IN_PROGRESS -> IN_PROGRESS with a new lease, or PENDING, no attempt spent; for the holder of the claim alone.
-- ARGV[2]: MessagePack, a list of {id, priority, claim or nil, source, number of the body or nil, whether back to
-- PENDING, run_after or nil (as it was, if there is a claim, else now), attempts or nil, status to prepend}. ARGV[3] on: the bodies.
-- Returns {now, how many jobs changed, places in the list of those given back, places of those that were to go on, but
-- are not held so}.
-- with records earliest changes status source
local items = cmsgpack.unpack(ARGV[2])
local members, lines = {}, {}
for at, item in ipairs(items) do
  members[at] = member_of(item[1])
end
for at, line in ipairs(read(JOBS, members)) do
  lines[members[at]] = line
end

local function is_held(claim, item)
  if item[3] then
    return claim == item[3]
  end
  return source_of(claim) == item[4]
end

local changed, back, lost = 0, {}, {}
for at, item in ipairs(items) do
  local member = members[at]
  local line = lines[member]
  local state, priority, allowed, remaining, created, planned, _, lease, bytes, claim = string.match(line or '', RECORD)
  if state == IN_PROGRESS and tonumber(priority) == item[2] and is_held(claim, item) then
    local body, is_back, attempts, status = item[5] and ARGV[item[5] + 2], item[6], item[8], item[9]
    local run_after = item[3] and not item[7] and planned or time_text(item[7])
    if body then
      redis.call('HSET', prefix .. 'bodies', member, body)
      bytes = #body
    end
    if attempts then
      allowed = string.format('%d', attempts)
      remaining = allowed
    end
    if status ~= '' then
      change_status(member, status, '')
    end
    if is_back then
      state, claim = PENDING, ''
      enter(prefix .. 'p' .. priority, run_after, member)
      leaving[#leaving + 1] = member
      back[#back + 1] = at - 1
    else
      enter(CLAIMS, string.format('%d', now + lease), member)
    end
    lines[member] = record(state, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
    put(member, lines[member])
    changed = changed + 1
  elseif not item[6] then
    lost[#lost + 1] = at - 1
  end
end
carry_out()
return {NOW, changed, back, lost}
