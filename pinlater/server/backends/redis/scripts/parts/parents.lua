-- Parents of new jobs, as in links.lua. Functions about them are in "families", which is nil if no job has one; see
-- keys.lua for the reason.
local families
if HAS_LINKS then
  families = {}
  local links, children, inboxes = {}, {}, open_inboxes()

  -- Returns the error for the first parent on this shard that must not get children; nil: there is none.
  function families.check(parents)
    for _, parent in pairs(parents) do
      local address = inboxes.address_in(parent)
      if not children[address] then
        if not inboxes.is_distant(address) and not inboxes.is_open(address) then
          return 'NOPARENT ' .. address
        end
        children[address] = {}
      end
    end
  end

  -- Notes the parent of a new job; nil: it has none.
  function families.add(parent, priority, member)
    if parent then
      links[#links + 1] = member
      links[#links + 1] = cmsgpack.pack({p = parent})
      local own = children[inboxes.address_in(parent)]
      own[#own + 1] = inboxes.address_of(priority, member)
    end
  end

  -- Stores what was noted, after the jobs.
  function families.store()
    call_in_chunks('HSET', prefix .. 'links', links)
    for address, own in pairs(children) do
      inboxes.add_children(address, own)
    end
  end
end
