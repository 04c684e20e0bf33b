-- What ties jobs of this queue to others. The hash "links" maps a member to a MessagePack map, until the job is
-- deleted:
--   p  its parent, if it has one: address, position and name of the message to it, with blanks between
--   w  what it waits for: a list of {message name, how many}; it counts while the job is PENDING, and whatever makes the
--      job PENDING again takes it away, so that a claim need not
--   c  true: it was cancelled, or is asked to stop; while it is PENDING, it has something to undo first
--   k  true: it has keys of its own, see inboxes.lua
-- Functions about them are in "linked", once "open_links" was called, if there is anything to be done about links: of
-- all the jobs of a script, mostly none has any. See keys.lua for the reason.
local linked, open_links
if HAS_LINKS then
  -- Reads the links of jobs. Returns the functions; nil: none of the jobs has links, nor gets some by this script.
  function open_links(members)
    local links, is_needed = {}, ARGV[#ARGV] == 'links'
    for at, packed in ipairs(read_fields(LINKS, members)) do
      if packed then
        links[members[at]], is_needed = cmsgpack.unpack(packed), true
      end
    end
    if not is_needed then
      return
    end
    local linked, inboxes, parents = {}, open_inboxes(), {}
    local OPEN_SAGA = '"$saga":{"steps":["' -- as in pinlater/model/body_metadata.py
    local KINDS = {[SUCCEEDED] = '1', [FAILED] = '2', cancelled = '3', deleted = DELETED}

    -- Returns whether a job is asked to stop, if it is IN_PROGRESS, or was cancelled, if it is FAILED.
    function linked.is_cancelled(member)
      return links[member] and links[member].c
    end

    -- Returns whether a job has something to undo, by its body.
    function linked.has_to_undo(member)
      return string.find(redis.call('HGET', prefix .. 'bodies', member) or '', OPEN_SAGA, 1, true) ~= nil
    end

    -- Returns whether a job that would be PENDING again ends instead: it is asked to stop, and has nothing to undo.
    function linked.is_to_end(member)
      return linked.is_cancelled(member) and not linked.has_to_undo(member)
    end

    -- Lets a PENDING job of this queue be due; see inboxes.lua.
    function linked.wake(member, line)
      inboxes.wake_own(member, line)
    end

    -- Adds a job to what its parent will hear of it: "revived" or "closed", an open child from now on, or none. Returns
    -- that, and the place of what follows the address in the parent; nil: the job has no parent.
    local function news_for_parent(member, priority, change)
      local parent = links[member] and links[member].p
      if not parent then
        return
      end
      local address, rest = inboxes.address_in(parent)
      local news = parents[address]
      if not news then
        news = {closed = {}, revived = {}, messages = {}}
        parents[address] = news
      end
      local changed = news[change]
      changed[#changed + 1] = inboxes.address_of(priority, member)
      return news, rest
    end

    -- Marks a job as cancelled or asked to stop.
    function linked.mark(member, priority)
      links[member] = links[member] or {}
      links[member].c = true
      inboxes.put_link(prefix, member, links[member])
      news_for_parent(member, priority, 'closed')
    end

    local function tell_parent(member, priority, kind, payload)
      local news, rest = news_for_parent(member, priority, 'closed')
      if news then
        local position, name = string.match(links[member].p, '^(%d+) (.*)$', rest)
        local messages = news.messages[name]
        if not messages then
          messages = {}
          news.messages[name] = messages
        end
        local at = #messages
        messages[at + 1], messages[at + 2] = position, kind
        messages[at + 3] = payload or inboxes.end_of_status(prefix, member)
      end
    end

    -- Takes away what a job waits for, and the mark of one that was cancelled unless it keeps that in its new state.
    local function clear(member, link, state)
      local stays_asked = state == FAILED or state == PENDING and link.c and linked.has_to_undo(member)
      local is_changed = link.w or link.c and not stays_asked
      link.w = nil
      if not stays_asked then
        link.c = nil
      end
      if is_changed then
        inboxes.put_link(prefix, member, link)
      end
    end

    -- Notes which state a job has now; after its status was written. Its parent is told of its end.
    function linked.note(member, priority, state, result)
      local link = links[member]
      if not link then
        return
      end
      if link.w or link.c then
        clear(member, link, state)
      end
      if state ~= PENDING then
        tell_parent(member, priority, KINDS[link.c and 'cancelled' or state], state == SUCCEEDED and (result or '') or nil)
      end
    end

    -- Notes that a job is deleted that has not finished; before its status is deleted.
    function linked.note_deleted(member, priority)
      tell_parent(member, priority, KINDS.deleted)
    end

    -- Lets a job that is PENDING now wait for messages; returns false if there is no need to, since they have come.
    function linked.sleep(member, waits)
      if inboxes.is_fulfilled(member, waits) then
        return false
      end
      links[member] = links[member] or {}
      links[member].w = waits
      inboxes.put_link(prefix, member, links[member])
      return true
    end

    -- Notes that a job which had ended is PENDING again.
    function linked.revive(member, priority)
      if linked.is_cancelled(member) then
        links[member].c = nil
        inboxes.put_link(prefix, member, links[member])
      end
      linked.note(member, priority, PENDING)
      news_for_parent(member, priority, 'revived')
    end

    -- Tells parents of what was noted; after all other changes. Returns {queue, priority, number of jobs} for each
    -- sleep that this has ended; nil: none.
    function linked.tell()
      for address, news in pairs(parents) do
        inboxes.remove_children(address, news.closed)
        if #news.revived > 0 then
          inboxes.add_children(address, news.revived)
        end
        if next(news.messages) then
          inboxes.deliver(address, news.messages)
        end
      end
      return #inboxes.woken > 0 and inboxes.woken or nil
    end
    return linked
  end
end
