-- FAILED -> PENDING with new attempts. The caller removes the job from the sets of failed jobs. The claim stays in the
-- record, to show who held the job when it failed.
local function retry(member, line, attempts, run_after)
  local _, priority, allowed, _, created, _, _, lease, bytes, claim = string.match(line, RECORD)
  bytes = string.format(tonumber(attempts) > tonumber(allowed) and '0%d' or '%d', bytes)
  write_record(member, record(PENDING, priority, allowed, attempts, created, run_after, NOW, lease, bytes, claim))
  add_member(prefix .. 'p' .. priority, run_after, member)
  over[#over + 1] = member
  if linked then
    linked.revive(member, priority)
  end
end
