-- New jobs with keys, see keys.lua. Call keyed.store_new when some were added, and keyed.turn after all of them.
if keyed then
  local LEAD_MS = 5 -- see key_turns.py
  local entries = keyed.entries
  local new_keys, new_turns, is_added, last_added, last_stored = {}, {}, {}, {}, {}

  -- Returns whether a new job is the only one of its key, so that it need not wait; false if its key may have a rate.
  local function is_only_one(text, rate)
    local is_first = not is_added[text]
    is_added[text] = true
    if not is_first or rate then
      return false
    end
    local rates = keyed.rates_if()
    return not (rates and rates.has(text)) and not entries.first_entries(text, entries.CLAIMED, entries.PAST, 1)[1]
  end

  -- Returns the latest run_after of the PENDING jobs of a key, including what is added while they wait; 0 without any.
  local function last_run_after(text)
    if not last_stored[text] then
      local last = entries.last_entries(text, entries.THROUGH, entries.PAST, 1)[1]
      last_stored[text] = last and entries.parse_pending(text, last) or 0
    end
    return math.max(last_stored[text], last_added[text] or 0)
  end

  -- Records the key of a new job.
  function keyed.remember(member, text, limit, rate)
    if rate then
      redis.call('HSET', prefix .. 'job_rates', member, rate)
    end
    new_keys[#new_keys + 1] = member
    new_keys[#new_keys + 1] = (limit and string.format('%d', limit) or '') .. ' ' .. text
  end

  -- Records the key of a new PENDING job, and puts the job in line; returns the run_after to store it with.
  function keyed.add(member, text, limit, run_after, rate, is_imported)
    local due = keyed.without_wait(run_after)
    if is_only_one(text, rate) then
      due = due > now and due or now - LEAD_MS
    else
      due = due + entries.WAITS
      if rate then
        keyed.rates_if(true).note(text, rate, is_imported)
      end
      if limit == entries.ORDERED then
        due = math.max(due, last_run_after(text))
      end
      keyed.note_change(text, limit)
    end
    last_added[text] = math.max(due, last_added[text] or 0)
    new_turns[#new_turns + 1] = 0
    new_turns[#new_turns + 1] = entries.entry_of(text, member, PENDING, due)
    keyed.remember(member, text, limit, rate)
    return string.format('%d', due)
  end

  -- Stores what was recorded.
  function keyed.store_new()
    call_in_chunks('HSET', prefix .. 'job_keys', new_keys)
    call_in_chunks('ZADD', entries.TURNS, new_turns)
    new_keys, new_turns, is_added, last_added, last_stored = {}, {}, {}, {}, {}
  end
end
