-- Messages to jobs of any queue of the shard, and children of jobs. For a job that has some, there are these keys:
--   "inbox:" and its member, a hash; for each message name:
--     "n" name             how many messages have ever arrived
--     "d" name             how many of the first ones are deleted, if some are left
--     "i" name NUL id      empty; shows that a message with this id has arrived
--     "m" name NUL number  a digit for its kind, id, NUL, payload
--     "s" name             how many have ever arrived in "successes:"
--   "successes:" and its member: messages of children that succeeded, see successes.lua. They have no "i" and no "m",
--     since a child that has succeeded does not end again
--   "children:" and its member, a set of the addresses of its families with children that have not finished, and of
--     cancelled children that may have children to cancel
-- The address of a job is its queue, priority and id, separated by blanks; that of a family is its queue and last id, see
-- families.lua. For a job on another shard, it begins with the name of that shard and a colon. For such jobs, this shard
-- has these keys:
--   "children:" and the address, a set as above
--   "outgoing:" and the name of the other shard, a stream of the messages for all its jobs, until it has received them
--   the same with ":returned", the id of the newest of these messages that was returned to a server for delivery
--   "outgoing", a set of the other shards for which there are messages
-- "open_inboxes" defines the functions about them when they are needed; see keys.lua for the reason.
local DELETED = '4'
local open_inboxes
if HAS_LINKS then
  function open_inboxes()
    local inboxes = {woken = {}}
    local TOLD_CHARACTERS = 4000
    local SHARD, QUEUE = string.match(KEYS[1], '^([^{]*{[^:}]*)'), string.match(KEYS[1], ':([^:]*)}$')

    -- Returns the prefix of all keys of a queue, false if there is no such queue.
    local function prefix_of_queue(queue)
      local tag = SHARD .. ':' .. queue .. '}'
      local generation = redis.call('GET', tag)
      return generation and tag .. ':' .. generation .. ':'
    end

    -- Returns the prefix of all keys of a job's queue, false if there is no such queue; then the job's member, priority
    -- and queue.
    local function find(address)
      local queue, priority, id = string.match(address, '^(%S+) (%d+) (%d+)$')
      return prefix_of_queue(queue), member_of(id), priority, queue
    end

    -- Returns the record and state of a job if it has not finished, or with "or_failed", if it is FAILED.
    local function open_line(at, member, priority, or_failed)
      local line = at and redis.call('HGET', at .. 'jobs', member)
      local state, level = string.match(line or '', '^(%d) (%d+)')
      if (state == PENDING or state == IN_PROGRESS or or_failed and state == FAILED) and level == priority then
        return line, state
      end
    end

    function inboxes.read_link(at, member)
      local packed = redis.call('HGET', at .. 'links', member)
      return packed and cmsgpack.unpack(packed) or {}
    end

    function inboxes.put_link(at, member, link)
      if next(link) then
        redis.call('HSET', at .. 'links', member, cmsgpack.pack(link))
      else
        redis.call('HDEL', at .. 'links', member)
      end
    end

    -- Records that a job has an inbox or a set of children, which are deleted with it.
    local function note_own_keys(at, member, link)
      if not link.k then
        link.k = true
        inboxes.put_link(at, member, link)
      end
    end

    -- Stores messages of one name, except those that already exist. "messages" is a flat list of id, kind and payload
    -- of each: a table for each message would cost more than all the rest. Returns how many of the name have ever
    -- arrived; nil if none was stored.
    local function store_messages(inbox, name, messages)
      local ids, id_head, message_head = {}, 'i' .. name .. '\0', 'm' .. name .. '\0'
      for at = 1, #messages, 3 do
        ids[#ids + 1] = id_head .. messages[at]
      end
      local before = tonumber(redis.call('HGET', inbox, 'n' .. name) or 0)
      local is_known, last, fields, at = {}, before, {}, 0
      for place, known in ipairs(read_fields(inbox, ids)) do
        local id = ids[place]
        if not known and not is_known[id] then
          is_known[id], last = true, last + 1
          fields[at + 1], fields[at + 2] = id, ''
          fields[at + 3] = message_head .. string.format('%d', last)
          fields[at + 4] = messages[3 * place - 1] .. messages[3 * place - 2] .. '\0' .. messages[3 * place]
          at = at + 4
        end
      end
      if at > 0 then
        fields[at + 1], fields[at + 2] = 'n' .. name, string.format('%d', last)
        call_in_chunks('HSET', inbox, fields)
        return last
      end
    end

    -- Stores the messages of one name from children of this shard that have just succeeded, except those from children
    -- that had failed before. "told" is a flat list of id and payload of each. Returns the same as "store_messages".
    local function store_successes(at, member, name, told)
      local MOST_BYTES = 131072 -- to be read at once
      local inbox, ids, sizes, payloads, bytes = at .. 'inbox:' .. member, {}, {}, {}, 0
      local last, together = unpack(redis.call('HMGET', inbox, 'n' .. name, 's' .. name))
      last, together = tonumber(last or 0), tonumber(together or 0)
      local before, known = last, {}
      if last > together then
        for place = 1, #told, 2 do
          ids[#ids + 1] = 'i' .. name .. '\0' .. told[place]
        end
        ids, known = {}, read_fields(inbox, ids)
      end
      local function store()
        if #ids > 0 then
          local numbers = string.format('\0%016d\0%d\0', last + #ids, last + 1)
          local listed = table.concat(ids, ',') .. '\0' .. table.concat(sizes, ',') .. '\0'
          redis.call('ZADD', at .. 'successes:' .. member, 0, name .. numbers .. listed .. table.concat(payloads))
          last, ids, sizes, payloads, bytes = last + #ids, {}, {}, {}, 0
        end
      end
      for place = 1, #told, 2 do
        if not known[(place + 1) / 2] then
          local payload = told[place + 1]
          if bytes + #payload > MOST_BYTES then
            store()
          end
          local count = #ids + 1
          ids[count], sizes[count], payloads[count], bytes = told[place], #payload, payload, bytes + #payload
        end
      end
      store()
      if last > before then
        redis.call('HSET', inbox, 'n' .. name, string.format('%d', last),
          's' .. name, string.format('%d', together + last - before))
        return last
      end
    end

    -- PENDING and not due -> due now; as in schedule_jobs, a job that waits for its key stays in line.
    local function wake(queue, at, member, line)
      local _, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line, RECORD)
      local keyed, is_later = nil, tonumber(run_after) > now
      if redis.call('EXISTS', at .. 'job_keys') == 1 then
        keyed = open_keys(at, at .. 'jobs')
        is_later = keyed.movable_due(member, run_after) > now
      end
      if is_later then
        redis.call('HSET', at .. 'jobs', member,
          record(PENDING, priority, allowed, remaining, created, NOW, NOW, lease, bytes, claim))
        redis.call('ZADD', at .. 'p' .. priority, NOW, member)
        if may_have_failed(allowed, remaining, bytes) then
          settle_failing(at, {member})
        end
        local through = keyed and keyed.note_and_turn({member}, {line}) or 0
        local woken = inboxes.woken
        woken[#woken + 1] = {queue, tonumber(priority), 1 + through}
      end
    end

    -- Makes a PENDING job of this queue due now.
    function inboxes.wake_own(member, line)
      wake(QUEUE, prefix, member, line)
    end

    -- Returns the name of the other shard that a job is on, and its address there; nil if it is on this shard.
    function inboxes.is_distant(address)
      return string.match(address, '^([^:]+):(.*)$')
    end

    -- Stores messages, by name, for a job of another shard to be relayed; see "store_messages". Records that among the
    -- ended sleeps, as {name of that shard}.
    local function leave(shard, address, messages)
      for name, some in pairs(messages) do
        for at = 1, #some, 3 do
          redis.call('XADD', SHARD .. '}:outgoing:' .. shard, '*', 'job', address, 'name', name, 'id', some[at],
            'kind', some[at + 1], 'payload', some[at + 2])
        end
      end
      redis.call('SADD', SHARD .. '}:outgoing', shard)
      inboxes.woken[#inboxes.woken + 1] = {shard}
    end

    -- Stores messages, by name, to a job that has not finished, and ends its sleep if that fulfils one of its waits;
    -- see "store_messages", and for the optional "successes", none of a job of another shard, "store_successes".
    -- A job that is FAILED is told how its children end, since it may be retried, and then waits for these; "is_event"
    -- says that the messages tell something else.
    -- Returns whether there is such a job; true for any job of another shard.
    function inboxes.deliver(address, messages, successes, is_event)
      local shard, there = inboxes.is_distant(address)
      if shard then
        leave(shard, there, messages)
        return true
      end
      local at, member, priority, queue = find(address)
      local line, state = open_line(at, member, priority, not is_event)
      if not line then
        return false
      end
      local link, counts = inboxes.read_link(at, member), {}
      for name, some in pairs(messages) do
        counts[name] = store_messages(at .. 'inbox:' .. member, name, some)
      end
      for name, some in pairs(successes or {}) do
        counts[name] = store_successes(at, member, name, some) or counts[name]
      end
      if next(counts) then
        note_own_keys(at, member, link)
      end
      for _, wait in ipairs(state == PENDING and link.w or {}) do
        if (counts[wait[1]] or 0) >= wait[2] then
          wake(queue, at, member, line)
          break
        end
      end
      return true
    end

    -- Deletes messages of one name of a job of this queue; if there are very many, only the first ones.
    function inboxes.drop(member, name)
      local MAX_DROPPED = 10000
      local inbox, together, fields = prefix .. 'inbox:' .. member, prefix .. 'successes:' .. member, {}
      local last, dropped = unpack(redis.call('HMGET', inbox, 'n' .. name, 'd' .. name))
      last, dropped = tonumber(last or 0), tonumber(dropped or 0)
      local end_of_these = math.min(last, dropped + MAX_DROPPED)
      local number = dropped + 1
      while number <= end_of_these do
        local _, first, last_together = find_successes(together, name, number)
        for single = number, math.min((first or last + 1) - 1, end_of_these) do
          local field = 'm' .. name .. '\0' .. string.format('%d', single)
          local message = redis.call('HGET', inbox, field)
          fields[#fields + 1] = field
          if message then -- Redis may have evicted it
            fields[#fields + 1] = 'i' .. name .. '\0' .. string.match(message, '^.([^%z]*)')
          end
        end
        number = (last_together or last) + 1
        if first and first <= end_of_these then
          end_of_these = math.max(end_of_these, last_together)
          redis.call('ZREMRANGEBYLEX', together, '[' .. name .. '\0', '(' .. name .. string.format('\0%016d', number))
        end
      end
      if end_of_these < last then
        redis.call('HSET', inbox, 'd' .. name, string.format('%d', end_of_these))
      else
        fields[#fields + 1] = 'n' .. name
        fields[#fields + 1] = 'd' .. name
        fields[#fields + 1] = 's' .. name
      end
      call_in_chunks('HDEL', inbox, fields)
    end

    -- Returns whether one of the waits of a job of this queue is fulfilled.
    function inboxes.is_fulfilled(member, waits)
      local names = {}
      for place, wait in ipairs(waits) do
        names[place] = 'n' .. wait[1]
      end
      for place, number in ipairs(read_fields(prefix .. 'inbox:' .. member, names)) do
        if tonumber(number or 0) >= waits[place][2] then
          return true
        end
      end
      return false
    end

    -- Returns whether a job runs or waits and is not asked to stop.
    function inboxes.is_open(address)
      local at, member, priority = find(address)
      return open_line(at, member, priority) and not inboxes.read_link(at, member).c
    end

    -- Returns the end of a job's status that goes into the message to its parent.
    function inboxes.end_of_status(at, member)
      local text = redis.call('HGET', at .. 'status', member) or ''
      local first = #text + 1
      for _ = 1, TOLD_CHARACTERS do
        repeat
          first = first - 1
        until first <= 1 or not string.find(text, '^[\128-\191]', first)
        if first <= 1 then
          return text
        end
      end
      return string.sub(text, first)
    end

    -- Returns the address of a job of this queue.
    local heads = {}
    function inboxes.address_of(priority, member)
      local head = heads[priority]
      if not head then
        head = QUEUE .. ' ' .. priority .. ' '
        heads[priority] = head
      end
      return head .. string.sub(member, 2)
    end

    -- Returns the address of a family of this queue.
    function inboxes.address_of_family(family)
      return string.format('%s %d', QUEUE, family.last)
    end

    -- Adds addresses to the set of a job's children, unless the job is on this shard and has finished or does not exist.
    function inboxes.add_children(address, children)
      if inboxes.is_distant(address) then
        call_in_chunks('SADD', SHARD .. '}:children:' .. address, children)
        return
      end
      local at, member, priority = find(address)
      if #children > 0 and open_line(at, member, priority) then
        call_in_chunks('SADD', at .. 'children:' .. member, children)
        note_own_keys(at, member, inboxes.read_link(at, member))
      end
    end

    -- Adds cancelled children to the set of a job, which has or had children there and may have been cancelled itself.
    function inboxes.list_children(address, children)
      if inboxes.is_distant(address) then
        inboxes.add_children(address, children)
      elseif #children > 0 then
        local at, member = find(address)
        if at and redis.call('HEXISTS', at .. 'jobs', member) == 1 then
          call_in_chunks('SADD', at .. 'children:' .. member, children)
        end
      end
    end

    -- Returns the key of the set of a job's children; nothing if its queue does not exist.
    local function children_key(address)
      if inboxes.is_distant(address) then
        return SHARD .. '}:children:' .. address
      end
      local at, member = find(address)
      return at and at .. 'children:' .. member
    end

    function inboxes.remove_children(address, children)
      local key = children_key(address)
      if key then
        call_in_chunks('SREM', key, children)
      end
    end

    -- Returns whether a job was cancelled and is still in the set of its parent, see links.lua.
    local function is_listed(address)
      local at, member = find(address)
      local link = at and inboxes.read_link(at, member)
      return link and link.c and link.l
    end

    -- Returns the addresses of those jobs of a family that run or wait and are not asked to stop, and its size.
    local function open_relatives(queue, last)
      local at = prefix_of_queue(queue)
      local stored = at and redis.call('ZRANGEBYSCORE', at .. 'families', last, last)[1]
      if not stored then
        return {}, 1
      end
      local family, members, found = parse_family(stored), {}, {}
      for id = family.first, family.last do
        members[#members + 1] = member_of(id)
      end
      local lines = read_fields(at .. 'jobs', members)
      for place, packed in ipairs(read_fields(at .. 'links', members)) do
        local state, priority = string.match(lines[place] or '', '^(%d) (%d+)')
        if (state == PENDING or state == IN_PROGRESS) and not (packed and cmsgpack.unpack(packed).c) then
          found[#found + 1] = queue .. ' ' .. priority .. ' ' .. string.sub(members[place], 2)
        end
      end
      return found, #members
    end

    -- Returns the addresses of the children to cancel for which an entry of a set of children stands, and how many jobs
    -- that took to look at.
    local function children_to_cancel(entry)
      local queue, last = string.match(entry, '^(%S+) (%d+)$')
      if queue then
        return open_relatives(queue, last)
      end
      return (inboxes.is_open(entry) or is_listed(entry)) and {entry} or {}, 1
    end

    -- Adds to "found" up to "left" of the children of a job that have to be cancelled. Removes entries from its set that
    -- have none: their queue was deleted, or the children are asked to stop already. Returns whether it has found none
    -- but is to be called again, since it looks at a limited number of jobs in vain.
    function inboxes.find_children(address, found, left)
      local MOST_IN_VAIN, key = 2000, children_key(address)
      local before, in_vain, gone = #found, 0, nil
      repeat
        gone = {}
        for _, entry in ipairs(key and left > 0 and redis.call('SRANDMEMBER', key, left) or {}) do
          local children, size = children_to_cancel(entry)
          in_vain = in_vain + size - #children
          for place = 1, math.min(#children, before + left - #found) do
            found[#found + 1] = children[place]
          end
          if #children == 0 then
            gone[#gone + 1] = entry
          end
          if #found == before + left or in_vain >= MOST_IN_VAIN then
            break
          end
        end
        call_in_chunks('SREM', key, gone)
      until #found > before or #gone == 0 or in_vain >= MOST_IN_VAIN
      return #found == before and #gone > 0
    end
    return inboxes
  end
end
