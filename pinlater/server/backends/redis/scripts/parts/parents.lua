-- Parents of new jobs. ARGV has families of a call: runs of jobs with the same parent, as {number of the first, how many,
-- address of the parent, position of the first, name of the message}; the positions of the others follow that of the
-- first. They are stored as families.lua says. "families" has the functions about them; it is nil if no job has a
-- parent; see keys.lua for the reason.
local families
if HAS_LINKS then
  families = {}
  local MOST_RELATIVES = 500
  local given, skipped, inboxes = {}, {}, open_inboxes()

  -- Takes the families. Returns the error for the first parent on this shard that cannot get children; nil if there is
  -- none.
  function families.check(all)
    local is_checked = {}
    for _, one in ipairs(all) do
      local address = one[3]
      if not is_checked[address] and not inboxes.is_distant(address) and not inboxes.is_open(address) then
        return 'NOPARENT ' .. address
      end
      is_checked[address] = true
    end
    given = all
  end

  -- Notes that a job of the call is not stored.
  function families.skip(number)
    skipped[number] = true
  end

  -- Returns the number of the last job of a family that may be stored together with a first one.
  local function last_together(number, last)
    local most = math.min(last, number + MOST_RELATIVES - 1)
    while number < most and not skipped[number] and not skipped[number + 1] do
      number = number + 1
    end
    return number
  end

  -- Stores the families; call it after storing the jobs. "before" is the id before that of the first job of the call.
  function families.store(before)
    local stored, children = {}, {}
    for _, one in ipairs(given) do
      local number, count, address, position, name = unpack(one)
      local last = number + count - 1
      while number <= last do
        local last_number = last_together(number, last)
        if not skipped[number] then
          local first_id, last_id = string.format('%d', before + number), string.format('%d', before + last_number)
          local own_position = string.format('%d', position + number - one[1])
          stored[#stored + 1] = last_id
          stored[#stored + 1] = table.concat({first_id, last_id, address, own_position, name}, ' ')
          children[address] = children[address] or {}
          table.insert(children[address], inboxes.address_of_family({last = before + last_number}))
        end
        number = last_number + 1
      end
    end
    call_in_chunks('ZADD', prefix .. 'families', stored)
    for address, all in pairs(children) do
      inboxes.add_children(address, all)
    end
  end
end
