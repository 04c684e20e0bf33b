-- Entries of the sorted set "turns", see keys.lua.
local open_entries
if HAS_SHARED_KEYS or HAS_LINKS then
  -- Returns the functions for the queue whose Redis keys begin with this prefix.
  function open_entries(prefix)
    local WAITS, TURN_JOBS, ORDERED = 4503599627370496, 1, 0
    local TURNS = prefix .. 'turns'
    -- Where the entries of a key's claimed jobs begin, those of the jobs let through, those of the waiting ones, and
    -- where they end.
    local entries = {
      TURNS = TURNS, WAITS = WAITS, TURN_JOBS = TURN_JOBS, ORDERED = ORDERED, MOST_LISTED = 100,
      CLAIMED = '\0c', THROUGH = '\0p', WAITING = '\0p4503599627370496', PAST = '\1'
    }

    -- Returns the limit and text of a stored key.
    function entries.parse_key(value)
      local limit, text = string.match(value, '^(%d*) (.*)$')
      return tonumber(limit), text
    end

    function entries.entry_of(text, member, state, run_after)
      if state == IN_PROGRESS then
        return text .. entries.CLAIMED .. member
      end
      return state == PENDING and text .. entries.THROUGH .. string.format('%016d', run_after) .. member
    end

    -- Returns the run_after and the member in the entry of a PENDING job.
    function entries.parse_pending(text, entry)
      return tonumber(string.sub(entry, #text + 3, #text + 18)), string.sub(entry, #text + 19)
    end

    function entries.count(text, from, to)
      return redis.call('ZLEXCOUNT', TURNS, '[' .. text .. from, '(' .. text .. to)
    end

    function entries.first_entries(text, from, to, most)
      return redis.call('ZRANGEBYLEX', TURNS, '[' .. text .. from, '(' .. text .. to, 'LIMIT', 0, most)
    end

    function entries.last_entries(text, from, to, most)
      return redis.call('ZREVRANGEBYLEX', TURNS, '(' .. text .. to, '[' .. text .. from, 'LIMIT', 0, most)
    end

    -- Parses entries of PENDING jobs of a key: text, member, run_after without what is added while it waits.
    function entries.parse_jobs(text, found)
      local jobs = {}
      for at, entry in ipairs(found) do
        local run_after, member = entries.parse_pending(text, entry)
        jobs[at] = {text = text, entry = entry, member = member, run_after = run_after % WAITS}
      end
      return jobs
    end
    return entries
  end
end
