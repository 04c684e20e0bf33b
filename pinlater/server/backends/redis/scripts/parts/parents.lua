-- Parents of new jobs. Functions about them are in "families", which is nil if no job has one; see keys.lua.
local families
if HAS_LINKS then
  families = {}
  local links, children = {}, {}

  -- Returns the error for the first parent that must not get children; nil: there is none.
  function families.check(parents)
    local is_known = {}
    for _, parent in pairs(parents) do
      local queue, priority, id = unpack(parent)
      local key = queue .. ':' .. priority .. ':' .. id
      local refused = not is_known[key] and inboxes.barren(queue, priority, id)
      if refused then
        return 'NOPARENT ' .. refused
      end
      is_known[key] = true
    end
  end

  -- Notes the parent of a new job; nil: it has none.
  function families.add(parent, priority, member)
    if parent then
      links[#links + 1] = member
      links[#links + 1] = cmsgpack.pack({p = parent})
      local key = parent[1] .. ':' .. parent[3]
      local family = children[key] or {parent = parent, members = {}}
      children[key] = family
      family.members[#family.members + 1] = inboxes.child_of(priority, member)
    end
  end

  -- Stores what was noted, after the jobs.
  function families.store()
    call_in_chunks('HSET', prefix .. 'links', links)
    for _, family in pairs(children) do
      inboxes.add_children(family.parent[1], family.parent[2], family.parent[3], family.members)
    end
  end
end
