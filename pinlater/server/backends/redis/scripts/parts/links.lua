-- What ties jobs of this queue to others. Their parents are stored as families.lua says. The hash "links" maps a member
-- to a MessagePack map, until the job is deleted:
--   w  its waits: a list of {message name, how many}; they count while the job is PENDING, and whatever makes the job
--      PENDING again clears them, so that a claim need not
--   c  true: it was cancelled, or is asked to stop; while it is PENDING, it has something to undo first
--   l  true: it is cancelled, and itself in its parent's set of children, since it may have children to cancel
--   k  true: it has an inbox or a set of children, see inboxes.lua
-- "open_links" returns the functions about them if there is anything to do about links; scripts put them into "linked".
-- Usually none of the jobs of a script has any links. See keys.lua for the reason.
local linked, open_links
if HAS_LINKS then
  -- Reads the links of jobs. Returns the functions; nil if none of the jobs has links or gets some from this script.
  function open_links(members)
    local links, family_of, is_needed = {}, open_families(prefix), ARGV[#ARGV] == 'links'
    for at, packed in ipairs(read_fields(LINKS, members)) do
      if packed then
        links[members[at]], is_needed = cmsgpack.unpack(packed), true
      end
      is_needed = is_needed or family_of(members[at]) ~= nil
    end
    if not is_needed then
      return
    end
    local linked, inboxes, parents, ended, revived = {}, open_inboxes(), {}, {}, {}
    local OPEN_SAGA, UNDOES_CANCELLED = '"$saga":{"steps":["', '"$undoes":true' -- as in pinlater/model/body_metadata.py
    local KINDS = {[SUCCEEDED] = '1', [FAILED] = '2', cancelled = '3', deleted = DELETED}

    -- Returns whether a job is asked to stop or, if it is FAILED, was cancelled.
    function linked.is_cancelled(member)
      return links[member] and links[member].c
    end

    -- Returns whether a job has something to undo, according to its body.
    function linked.has_to_undo(member)
      return string.find(redis.call('HGET', prefix .. 'bodies', member) or '', OPEN_SAGA, 1, true) ~= nil
    end

    -- Returns whether a job has to end instead of becoming PENDING: it is asked to stop and has nothing to undo.
    function linked.is_to_end(member)
      return linked.is_cancelled(member) and not linked.has_to_undo(member)
    end

    -- Returns whether a job that is given back is due at once: it is asked to stop, and does not undo anything yet.
    function linked.is_due_at_once(member)
      local body = linked.is_cancelled(member) and redis.call('HGET', prefix .. 'bodies', member)
      return body and not string.find(body, UNDOES_CANCELLED, 1, true)
    end

    linked.wake = inboxes.wake_own

    -- Returns the news for a parent: families that have open children again, cancelled children to list, entries of its
    -- set of children to remove, and messages.
    local function news_for(address)
      local news = parents[address]
      if not news then
        news = {reopened = {}, listed = {}, removed = {}, messages = {}, successes = not inboxes.is_distant(address) and {}}
        parents[address] = news
      end
      return news
    end

    -- Puts a cancelled job into its parent's set of children, or takes it out of that.
    local function list(member, priority, is_listed)
      local family = family_of(member)
      links[member].l = is_listed or nil
      if family then -- Redis may have evicted it
        local news = news_for(family.address)
        table.insert(is_listed and news.listed or news.removed, inboxes.address_of(priority, member))
      end
    end

    -- Returns whether a job may have children to cancel.
    function linked.may_have_children(member)
      local link = links[member]
      return link and (link.k or link.c and link.l)
    end

    -- Marks a job as cancelled or asked to stop.
    function linked.mark(member, priority)
      local link = links[member] or {}
      links[member] = link
      link.c = true
      if link.k and family_of(member) then
        list(member, priority, true)
      end
      inboxes.put_link(prefix, member, link)
    end

    -- Takes a cancelled job off the children of its parent.
    function linked.finish_cancellation(member, priority)
      local link = links[member]
      if link and link.c and link.l then
        list(member, priority, false)
        inboxes.put_link(prefix, member, link)
      end
    end

    -- Records that a job has ended, and a message for its parent.
    local function tell_parent(member, kind, payload)
      local family, id = family_of(member)
      if family then
        ended[family] = (ended[family] or 0) + 1
        local news = news_for(family.address)
        local is_together = kind == KINDS[SUCCEEDED] and news.successes
        local by_name = is_together or news.messages
        local messages = by_name[family.name]
        if not messages then
          messages = {}
          by_name[family.name] = messages
        end
        local at, position = #messages, position_in(family, id)
        if is_together then
          messages[at + 1], messages[at + 2] = position, payload
        else
          messages[at + 1], messages[at + 2] = position, kind
          messages[at + 3] = payload or inboxes.end_of_status(prefix, member)
        end
      end
    end

    -- Clears the waits of a job, and its mark as cancelled unless it keeps that in its new state.
    local function clear(member, priority, link, state)
      local stays_asked = state == FAILED or state == PENDING and link.c and linked.has_to_undo(member)
      local is_changed = link.w or link.c and not stays_asked
      link.w = nil
      if not stays_asked then
        link.c = nil
        if link.l then
          list(member, priority, false)
        end
      end
      if is_changed then
        inboxes.put_link(prefix, member, link)
      end
    end

    -- Records the new state of a job, and if it has ended, a message for its parent; call it after writing the status.
    function linked.note(member, priority, state, result)
      local link = links[member]
      if link and (link.w or link.c) then
        clear(member, priority, link, state)
      end
      if state ~= PENDING then
        tell_parent(member, KINDS[link and link.c and 'cancelled' or state], state == SUCCEEDED and (result or '') or nil)
      end
    end

    -- Records that an unfinished job is deleted; call it before deleting the status.
    function linked.note_deleted(member, priority)
      if links[member] and links[member].l then
        list(member, priority, false)
      end
      tell_parent(member, KINDS.deleted)
    end

    -- Stores the waits of a job that is PENDING now; returns false, and stores nothing, if one is already fulfilled.
    function linked.sleep(member, waits)
      if inboxes.is_fulfilled(member, waits) then
        return false
      end
      links[member] = links[member] or {}
      links[member].w = waits
      inboxes.put_link(prefix, member, links[member])
      return true
    end

    -- Records that a job which had ended is PENDING again.
    function linked.revive(member, priority)
      if linked.is_cancelled(member) then
        clear(member, priority, links[member], SUCCEEDED)
      end
      linked.note(member, priority, PENDING)
      local family = family_of(member)
      if family then
        revived[family] = true
      end
    end

    -- Updates the parents and sends them the recorded messages; call it after all other changes. Returns a list of the
    -- sleeps that were ended, each as {queue, priority, number of jobs}, and of the other shards for which messages
    -- were left, each as {name}; nil if there are none.
    function linked.tell()
      for family in pairs(revived) do
        table.insert(news_for(family.address).reopened, inboxes.address_of_family(family))
      end
      for family, number in pairs(ended) do
        if number > family.last - family.first or not has_jobs_left(prefix, family, true) then
          table.insert(news_for(family.address).removed, inboxes.address_of_family(family))
        end
      end
      for address, news in pairs(parents) do
        inboxes.remove_children(address, news.removed)
        inboxes.add_children(address, news.reopened)
        inboxes.list_children(address, news.listed)
        if next(news.messages) or next(news.successes or {}) then
          inboxes.deliver(address, news.messages, news.successes)
        end
      end
      return #inboxes.woken > 0 and inboxes.woken or nil
    end
    return linked
  end
end
