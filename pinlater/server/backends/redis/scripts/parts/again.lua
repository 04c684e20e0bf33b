-- FAILED -> PENDING with new attempts; what it leaves is the caller's matter. The claim stays, to tell who failed.
local function again(member, line, attempts, run_after)
  local _, priority, allowed, _, created, _, _, lease, bytes, claim = string.match(line, RECORD)
  put(member, record(PENDING, priority, allowed, attempts, created, run_after, NOW, lease, bytes, claim))
  enter(prefix .. 'p' .. priority, run_after, member)
end
