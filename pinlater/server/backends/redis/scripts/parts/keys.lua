-- Keys that jobs share. The hash "job_keys" maps a member to the limit and the text of its key, until the job is
-- deleted. The sorted set "turns" has an entry for each unfinished job with a key, all with score 0, so in text order:
--   key NUL "c" member              it is claimed
--   key NUL "p" run_after member    it is PENDING; run_after has 16 digits
-- A job that waits for its key has WAITS added to its run_after. So the order of the jobs of a key is: claimed, let
-- through, waiting. The decisions about whose turn it is are those of key_turns.py.
--
-- "keyed" has the functions for the keys of this queue. It is nil if there is nothing to do about keys, since even
-- defining functions would cost jobs without keys something; an earlier part decides that. A script that sends messages
-- to jobs of other queues opens the functions for those.
local keyed, open_keys
if HAS_SHARED_KEYS or HAS_LINKS then
  -- Returns the functions for the queue whose Redis keys begin with this prefix.
  function open_keys(prefix, JOBS)
    local entries, JOB_KEYS = open_entries(prefix), prefix .. 'job_keys'
    local keyed = {entries = entries}
    local TURNS, WAITS, ORDERED = entries.TURNS, entries.WAITS, entries.ORDERED
    local THROUGH, PAST = entries.THROUGH, entries.PAST
    local entry_of, parse_key, parse_pending = entries.entry_of, entries.parse_key, entries.parse_pending
    local first_entries = entries.first_entries
    local changed, rates, turns, has_rates = {}, nil, nil, nil

    -- Returns the functions for rates; only if a key of the queue has one, unless it gets one.
    function keyed.rates_if(gets_one)
      if not rates then
        if has_rates == nil then
          has_rates = redis.call('EXISTS', prefix .. 'key_rates') == 1
        end
        rates = (has_rates or gets_one) and open_rates(prefix) or nil
      end
      return rates
    end

    -- Returns the functions that let jobs through. Often none of a key wait, so they are not needed.
    local function the_turns()
      turns = turns or open_turns(prefix, JOBS, entries)
      return turns
    end

    -- Returns when a job is due, whether it waits or not; bounded so that the time with and without WAITS can be told
    -- apart.
    function keyed.without_wait(run_after)
      local due = tonumber(run_after)
      return math.min(math.max(due >= WAITS and due - WAITS or due, 0), WAITS - 1)
    end

    -- Puts a job in line that a script has left PENDING; a job that was let through before stays let through. Returns
    -- its state and run_after.
    local function put_in_line(member, line, was_state, was_run_after)
      local state, _, _, _, _, run_after = string.match(line or '', RECORD)
      if state == PENDING then
        local is_through = was_state == IN_PROGRESS or was_state == PENDING and tonumber(was_run_after) < WAITS
        local due = is_through and math.min(math.max(run_after, 0), WAITS - 1) or keyed.without_wait(run_after) + WAITS
        if due ~= tonumber(run_after) then
          the_turns().put_at({member}, {line}, {due})
          run_after = string.format('%d', due)
        end
      end
      return state, run_after
    end

    -- Records that jobs of a key have changed, and a limit that one of them has.
    function keyed.note_change(text, limit)
      changed[text] = math.max(changed[text] or 0, limit or 0)
    end

    -- Updates the entries of jobs after a change, given their previous records, and if known, the new ones by member.
    function keyed.note(members, lines, new_lines)
      local own, limits, texts, befores, seen = {}, {}, {}, {}, {}
      for at, value in ipairs(read_fields(JOB_KEYS, members)) do
        if value and not seen[members[at]] then
          local size = #own + 1
          seen[members[at]], own[size], befores[size] = true, members[at], lines[at] or ''
          limits[size], texts[size] = parse_key(value)
        end
      end
      local removed, added = {}, {}
      local read = not new_lines and read_fields(JOBS, own)
      for at, member in ipairs(own) do
        local line, text = read and read[at] or new_lines and new_lines[member], texts[at]
        local was, _, _, _, _, was_run_after = string.match(befores[at], RECORD)
        local old = entry_of(text, member, was, was_run_after)
        local state, run_after = put_in_line(member, line, was, was_run_after)
        local new = entry_of(text, member, state, run_after)
        if state == IN_PROGRESS and was == PENDING then
          if keyed.rates_if() then
            rates.note_start(text)
          end
        elseif state == PENDING and was == FAILED then
          local rate = redis.call('HGET', prefix .. 'job_rates', member)
          if rate then
            keyed.rates_if(true).note(text, rate, true)
          end
        end
        if old ~= new then
          keyed.note_change(text, limits[at])
          removed[#removed + 1] = old or nil
          if new then
            added[#added + 1] = 0
            added[#added + 1] = new
          end
        end
      end
      call_in_chunks('ZREM', TURNS, removed)
      call_in_chunks('ZADD', TURNS, added)
    end

    -- Returns when a PENDING job is due, whether it waits or not; -1 if it waits for an ordered key, so that it must
    -- keep its place.
    function keyed.movable_due(member, run_after)
      local value = redis.call('HGET', JOB_KEYS, member)
      if not value or tonumber(run_after) < WAITS then
        return tonumber(run_after)
      end
      return parse_key(value) == ORDERED and -1 or keyed.without_wait(run_after)
    end

    -- Returns the run_after of a PENDING job that is to be due at another time; one that waits for an ordered key is not
    -- moved ahead of others.
    function keyed.put_off(member, run_after, due)
      local is_earlier = tonumber(due) < keyed.without_wait(run_after)
      return is_earlier and keyed.movable_due(member, run_after) < 0 and run_after or due
    end

    -- Returns the run_after of a PENDING job without what is added while it waits for its key.
    function keyed.when_let_through(member, run_after)
      local is_keyed = tonumber(run_after) >= WAITS and redis.call('HEXISTS', JOB_KEYS, member) == 1
      return is_keyed and string.format('%d', keyed.without_wait(run_after)) or run_after
    end

    -- Returns the first entries of a key that are let through or wait; nil if none of its jobs wait.
    local function read_line(text, turn_jobs, limit)
      local most = math.min(math.max(turn_jobs, limit), entries.MOST_LISTED) + 1
      local found = first_entries(text, THROUGH, PAST, most)
      local last = found[#found]
      if last and (#found == most or parse_pending(text, last) >= WAITS) then
        return {text = text, limit = limit, entries = found, is_cut = #found == most}
      end
    end

    -- Lets jobs of the changed keys through. Returns how many, and how many of them are due. wanted is how many more
    -- jobs a dequeue could take than it has found.
    function keyed.turn(wanted)
      local texts, keys, through, due = changed, 0, 0, 0
      changed = {}
      for _ in pairs(texts) do
        keys = keys + 1
      end
      local turn_jobs = math.max(entries.TURN_JOBS, math.floor((wanted or 0) / keys))
      while next(texts) do
        local again, lines = {}, {}
        for text, limit in pairs(texts) do
          local starts_at, held_until
          if keyed.rates_if() then
            starts_at, held_until = rates.settle(text)
          end
          if starts_at then
            local some, some_due, is_more = the_turns().let_paced_through(text, starts_at, held_until)
            through, due, again[text] = through + some, due + some_due, is_more and limit or nil
          else
            lines[#lines + 1] = read_line(text, turn_jobs, limit)
          end
        end
        if #lines > 0 then
          local some, some_due = the_turns().let_all_through(lines, turn_jobs, again)
          through, due = through + some, due + some_due
        end
        texts = again
      end
      return through, due
    end

    -- Does both; returns how many jobs are let through.
    function keyed.note_and_turn(members, lines, new_lines)
      keyed.note(members, lines, new_lines)
      return (keyed.turn())
    end
    return keyed
  end
  keyed = HAS_SHARED_KEYS and open_keys(prefix, JOBS) or nil
end
