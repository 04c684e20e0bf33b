-- Deletes links, inboxes and sets of children of jobs of a deleted queue, and sends messages to their parents; one page
-- of jobs. KEYS[1] is a set of prefixes, one for the keys of each such queue; ARGV[2] one of these; [3] cursor, "0" to
-- start; [4] number of links to read, or of jobs whose families are to be deleted.
-- Returns {cursor of the next page, "0" at the end; ended sleeps: see links.lua}.
-- standalone
-- parts: clock chunks no_queue when_full records failures key_rates key_entries key_turns keys successes families inboxes forget_links
local dead, cursor, inboxes = ARGV[2], ARGV[3], open_inboxes()
local FAMILIES = 'families' -- the cursor after all links

local function drop_some()
  local step = redis.call('HSCAN', dead .. 'links', cursor, 'COUNT', ARGV[4])
  local members = {}
  for at = 1, #step[2], 2 do
    members[#members + 1] = step[2][at]
  end
  forget_links(dead, members)
  return step[1] == '0' and FAMILIES or step[1]
end

-- Deletes a family; returns its size. Tells the parent of jobs that had not ended; of others it was told before, and may
-- have dropped the messages.
local function drop_family(family)
  local members, messages = {}, {}
  for id = family.first, family.last do
    members[#members + 1] = member_of(id)
  end
  for at, line in ipairs(read_fields(dead .. 'jobs', members)) do
    local state = string.sub(line or '', 1, 1)
    if state == PENDING or state == IN_PROGRESS then
      messages[#messages + 1] = position_in(family, family.first + at - 1)
      messages[#messages + 1] = DELETED
      messages[#messages + 1] = inboxes.end_of_status(dead, members[at])
    end
  end
  local queue, last = string.match(dead, '^[^{]*{[^:]*:([^}]*)}'), string.format('%d', family.last)
  inboxes.remove_children(family.address, {queue .. ' ' .. last})
  if #messages > 0 then
    inboxes.deliver(family.address, {[family.name] = messages})
  end
  redis.call('ZREMRANGEBYSCORE', dead .. 'families', last, last)
  return #members
end

if cursor ~= FAMILIES then
  cursor = drop_some()
else
  local size, most, first = 0, tonumber(ARGV[4]), nil
  repeat
    first = redis.call('ZRANGE', dead .. 'families', 0, 0)[1]
    size = size + (first and drop_family(parse_family(first)) or 0)
  until not first or size >= most
  if not first then
    redis.call('UNLINK', dead .. 'links', dead .. 'jobs', dead .. 'status')
    redis.call('SREM', KEYS[1], dead)
    cursor = '0'
  end
end
return {cursor, inboxes.woken}
