-- Deletes links, inboxes and sets of children of jobs of a deleted queue, and sends messages to their parents; one page
-- of jobs. KEYS[1] is a set of prefixes, one for the keys of each such queue; ARGV[2] one of these; [3] cursor, "0" to
-- start; [4] number of links to read.
-- Returns {cursor of the next page, "0" at the end; ended sleeps: see links.lua}.
-- standalone
-- parts: clock chunks no_queue when_full records failures key_rates keys successes inboxes forget_links
local dead, inboxes = ARGV[2], open_inboxes()
local step = redis.call('HSCAN', dead .. 'links', ARGV[3], 'COUNT', ARGV[4])
local members = {}

local function has_ended(member)
  return redis.call('ZSCORE', dead .. 'S', member) or redis.call('ZSCORE', dead .. 'F', member)
end

for at = 1, #step[2], 2 do
  local member = step[2][at]
  members[#members + 1] = member
  local parent = cmsgpack.unpack(step[2][at + 1]).p
  if parent then
    local address, position, name = string.match(parent, '^(%S+ %d+ %d+) (%d+) (.*)$')
    leave_distant_parent(dead, member, parent) -- one on this shard takes its set of children along when it is deleted
    if not has_ended(member) then -- otherwise the parent was told, and may have dropped the message
      inboxes.deliver(address, {[name] = {position, DELETED, inboxes.end_of_status(dead, member)}})
    end
  end
end
forget_links(dead, members)
if step[1] == '0' then
  redis.call('UNLINK', dead .. 'links', dead .. 'status', dead .. 'S', dead .. 'F')
  redis.call('SREM', KEYS[1], dead)
end
return {step[1], inboxes.woken}
