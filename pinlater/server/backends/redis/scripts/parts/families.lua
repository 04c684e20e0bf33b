-- Parents of jobs. A family is a run of up to 500 jobs of a queue with consecutive ids, which have the same parent, the
-- same name of the message to it, and consecutive positions. It is stored once, not with each job, until all its jobs are
-- deleted: in the sorted set "families" by its last id, as first id, last id, address of the parent (see inboxes.lua),
-- position of the first, and name of the message, separated by blanks.
-- The functions about families are defined if HAS_LINKS; see keys.lua for the reason.
local open_families, parse_family, position_in, has_jobs_left
if HAS_LINKS then
  -- Returns a family as it is stored.
  function parse_family(text)
    local first, last, address, position, name = string.match(text, '^(%d+) (%d+) (%S+ %d+ %d+) (%-?%d+) (.*)$')
    return {
      first = tonumber(first), last = tonumber(last), address = address, position = tonumber(position), name = name
    }
  end

  -- Returns a function that finds the family of a job: {first, last, address, position, name}, and the job's id; nothing
  -- if the job has no parent. It is fast for jobs in the order of their ids.
  function open_families(at)
    local MOST_AT_ONCE = 64
    local key, known, list, place, size, asked = at .. 'families', {}, {}, 0, 1, 0

    -- Reads the families from an id on, in their order: more than the last time if there were as many questions as
    -- families then. Each entry of the list is one and the ids from the one before it.
    local function read_from(id, text)
      local is_before = list[1] and id < list[1].from
      size = asked >= size and not is_before and math.min(4 * size, MOST_AT_ONCE) or 1
      list, place, asked = {}, 1, 0
      local from = id
      for _, found in ipairs(redis.call('ZRANGEBYSCORE', key, text, '+inf', 'LIMIT', 0, size)) do
        local family = known[found] or parse_family(found)
        known[found] = family
        list[#list + 1] = {from = from, last = family.last, family = family}
        from = family.last + 1
      end
      if #list < size then
        list[#list + 1] = {from = from, last = math.huge}
      end
      local next_one = list[1].family
      if next_one and next_one.first <= id then
        list[1].from = next_one.first
      elseif is_before then -- no family has this id, so perhaps none has those before it
        local before = redis.call('ZREVRANGEBYSCORE', key, '(' .. text, '-inf', 'LIMIT', 0, 1)[1]
        list[1].from = before and parse_family(before).last + 1 or 0
      end
    end

    return function(member)
      local text = string.sub(member, 2)
      local id = tonumber(text)
      while list[place] and id > list[place].last do
        place = place + 1
      end
      if not list[place] or id < list[place].from then
        read_from(id, text)
      end
      asked = asked + 1
      local family = list[place].family
      if family and id >= family.first then
        return family, id
      end
    end
  end

  -- Returns the position of a job of a family, as text.
  function position_in(family, id)
    return string.format('%d', family.position + id - family.first)
  end

  -- Returns whether a family has jobs that exist, or if is_unfinished that run or wait. It looks from the last one on, of
  -- which that is usually true for longest.
  function has_jobs_left(at, family, is_unfinished)
    local size, last = 1, family.last
    while last >= family.first do
      local members = {}
      for id = last, math.max(last - size + 1, family.first), -1 do
        members[#members + 1] = member_of(id)
      end
      for _, line in ipairs(read_fields(at .. 'jobs', members)) do
        local state = line and string.sub(line, 1, 1)
        if state and (not is_unfinished or state == PENDING or state == IN_PROGRESS) then
          return true
        end
      end
      size, last = 100, last - size
    end
    return false
  end
end
