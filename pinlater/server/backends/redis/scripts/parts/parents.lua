-- Parents of new jobs. A family is a run of jobs with the same parent: {number of the first, how many, address of the
-- parent, position of the first, name of the message}; the positions of the others follow that of the first. "families"
-- has the functions about them; it is nil if no job has a parent; see keys.lua for the reason.
local families
if HAS_LINKS then
  families = {}
  local links, children, inboxes = {}, {}, open_inboxes()
  local rest, place, family, own = {}, 0, nil, nil

  local function open_next()
    place = place + 1
    family = rest[place]
    own = family and children[family[3]]
  end

  -- Takes the families, in their order. Returns the error for the first parent on this shard that cannot get children;
  -- nil if there is none.
  function families.check(all)
    for _, one in ipairs(all) do
      local address = one[3]
      if not children[address] then
        if not inboxes.is_distant(address) and not inboxes.is_open(address) then
          return 'NOPARENT ' .. address
        end
        children[address] = {}
      end
    end
    rest = all
    open_next()
  end

  -- Records the parent of a new job, if it has one; call it for the jobs in the order of their numbers.
  function families.add(number, priority, member)
    while family and number >= family[1] + family[2] do
      open_next()
    end
    if family and number >= family[1] then
      local position = string.format('%d', family[4] + number - family[1])
      links[#links + 1] = member
      links[#links + 1] = cmsgpack.pack({p = family[3] .. ' ' .. position .. ' ' .. family[5]})
      own[#own + 1] = inboxes.address_of(priority, member)
    end
  end

  -- Stores the recorded parents; call it after storing the jobs.
  function families.store()
    call_in_chunks('HSET', prefix .. 'links', links)
    for address, all in pairs(children) do
      inboxes.add_children(address, all)
    end
  end
end
