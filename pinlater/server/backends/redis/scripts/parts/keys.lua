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
    local keyed = {}
    local JOB_KEYS, TURNS = prefix .. 'job_keys', prefix .. 'turns'
    local WAITS, TURN_JOBS, AT_ONCE, MOST_LISTED, ORDERED = 4503599627370496, 1, 10, 100, 0
    local SOON_MS = 1000
    -- Where the entries of a key's claimed jobs begin, those of the jobs let through, those of the waiting ones, and
    -- where they end.
    local CLAIMED, THROUGH, WAITING, PAST = '\0c', '\0p', '\0p' .. string.format('%016d', WAITS), '\1'
    local changed_keys, rates = {}, open_rates(prefix)
    -- What is to be stored of new jobs, the keys that these have, and by key the latest run_after.
    local new_keys, new_turns, added_keys, last_added, last_stored = {}, {}, {}, {}, {}

    -- Returns the limit and text of a stored key.
    local function parse_key(value)
      local limit, text = string.match(value, '^(%d*) (.*)$')
      return tonumber(limit), text
    end

    local function entry_of(text, member, state, run_after)
      if state == IN_PROGRESS then
        return text .. CLAIMED .. member
      end
      return state == PENDING and text .. THROUGH .. string.format('%016d', run_after) .. member
    end

    -- Returns the run_after and the member in the entry of a PENDING job.
    local function parse_pending(text, entry)
      return tonumber(string.sub(entry, #text + 3, #text + 18)), string.sub(entry, #text + 19)
    end

    local function count(text, from, to)
      return redis.call('ZLEXCOUNT', TURNS, '[' .. text .. from, '(' .. text .. to)
    end

    local function first_entries(text, from, to, most)
      return redis.call('ZRANGEBYLEX', TURNS, '[' .. text .. from, '(' .. text .. to, 'LIMIT', 0, most)
    end

    local function last_entries(text, from, to, most)
      return redis.call('ZREVRANGEBYLEX', TURNS, '(' .. text .. to, '[' .. text .. from, 'LIMIT', 0, most)
    end

    -- Returns when a job is due, whether it waits or not; bounded so that the time with and without WAITS can be told
    -- apart.
    local function without_wait(run_after)
      local due = tonumber(run_after)
      return math.min(math.max(due >= WAITS and due - WAITS or due, 0), WAITS - 1)
    end

    -- Changes the run_after of PENDING jobs.
    local function put_at(members, lines, runs_after)
      local records, scores, failing = {}, {}, {}
      for at, member in ipairs(members) do
        local _, priority, allowed, remaining, created, _, updated, lease, bytes, claim = string.match(lines[at], RECORD)
        local text, list = string.format('%d', runs_after[at]), scores[priority] or {}
        records[2 * at - 1] = member
        records[2 * at] = record(PENDING, priority, allowed, remaining, created, text, updated, lease, bytes, claim)
        scores[priority], list[#list + 1], list[#list + 2] = list, text, member
        if may_have_failed(allowed, remaining, bytes) then
          failing[#failing + 1] = member
        end
      end
      call_in_chunks('HSET', JOBS, records)
      for priority, list in pairs(scores) do
        call_in_chunks('ZADD', prefix .. 'p' .. priority, list)
      end
      settle_failing(prefix, failing)
    end

    -- Puts a job in line that a script has left PENDING; a job that was let through before stays let through. Returns
    -- its state and run_after.
    local function put_in_line(member, line, was_state, was_run_after)
      local state, _, _, _, _, run_after = string.match(line or '', RECORD)
      if state == PENDING then
        local is_through = was_state == IN_PROGRESS or was_state == PENDING and tonumber(was_run_after) < WAITS
        local due = is_through and math.min(math.max(run_after, 0), WAITS - 1) or without_wait(run_after) + WAITS
        if due ~= tonumber(run_after) then
          put_at({member}, {line}, {due})
          run_after = string.format('%d', due)
        end
      end
      return state, run_after
    end

    -- Parses entries of PENDING jobs of a key: text, member, run_after without what is added while it waits.
    local function parse_jobs(text, entries)
      local jobs = {}
      for at, entry in ipairs(entries) do
        local run_after, member = parse_pending(text, entry)
        jobs[at] = {text = text, entry = entry, member = member, run_after = run_after % WAITS}
      end
      return jobs
    end

    -- Adds the limits of jobs; returns the jobs.
    local function add_limits(jobs)
      local members = {}
      for at, job in ipairs(jobs) do
        members[at] = job.member
      end
      for at, value in ipairs(read_fields(JOB_KEYS, members)) do
        jobs[at].limit = value and parse_key(value)
      end
      return jobs
    end

    -- Reads the jobs that are let through and not due, latest first, without the ordered one if there is any.
    local function read_scheduled(text)
      local later = THROUGH .. string.format('%016d', now + 1)
      local jobs = add_limits(parse_jobs(text, last_entries(text, later, WAITING, AT_ONCE + 1)))
      for at = #jobs, 1, -1 do
        if jobs[at].limit == ORDERED then
          table.remove(jobs, at)
        end
      end
      return jobs
    end

    -- Moves PENDING jobs within the lines of their keys, each to "moves_to".
    local function move_all(jobs)
      local members, removed, moved, lines, runs_after, added = {}, {}, {}, {}, {}, {}
      for at, job in ipairs(jobs) do
        members[at], removed[at] = job.member, job.entry
      end
      for at, line in ipairs(read_fields(JOBS, members)) do
        if line then -- Redis may have evicted it
          local job, size = jobs[at], #moved + 1
          moved[size], lines[size], runs_after[size] = job.member, line, job.moves_to
          added[2 * size - 1], added[2 * size] = 0, entry_of(job.text, job.member, PENDING, job.moves_to)
        end
      end
      call_in_chunks('ZREM', TURNS, removed)
      put_at(moved, lines, runs_after)
      call_in_chunks('ZADD', TURNS, added)
    end

    local function move(job, run_after)
      job.moves_to = run_after
      move_all({job})
    end

    -- Servers of earlier versions claim and end jobs without recording it here. Corrects entries of claimed jobs and of
    -- those let through, given by key; returns the keys of which any was wrong.
    local function repair(entries_of)
      local texts, entries, members, repaired = {}, {}, {}, {}
      for text, some in pairs(entries_of) do
        for _, entry in ipairs(some) do
          local size, kind = #members + 1, string.sub(entry, #text + 2, #text + 2)
          texts[size], entries[size] = text, entry
          members[size] = string.sub(entry, #text + (kind == 'c' and 3 or 19))
        end
      end
      for at, line in ipairs(read_fields(JOBS, members)) do
        local state, _, _, _, _, run_after = string.match(line or '', RECORD)
        local right = entry_of(texts[at], members[at], state, run_after)
        if right ~= entries[at] then
          repaired[texts[at]] = true
          redis.call('ZREM', TURNS, entries[at])
          if right then
            redis.call('ZADD', TURNS, 0, right)
          end
        end
      end
      return repaired
    end

    local function is_repaired(text)
      return next(repair({[text] = first_entries(text, CLAIMED, WAITING, MOST_LISTED)})) ~= nil
    end

    -- Returns the jobs without those that servers of earlier versions have claimed or ended, see repair().
    local function still_pending(jobs)
      local members, found = {}, {}
      for at, job in ipairs(jobs) do
        members[at] = job.member
      end
      for at, line in ipairs(read_fields(JOBS, members)) do
        if string.sub(line or '', 1, 1) == PENDING then
          found[#found + 1] = jobs[at]
        end
      end
      return found
    end

    -- Lets only one job of a key with a rate stay let through, due when it may be started; makes the others wait again.
    -- Ordered jobs all stay. Returns the jobs that stay, how many of them were moved, and how many of those are due.
    local function keep_one(text, first, starts_at, held_until)
      local entries = first_entries(text, THROUGH, WAITING, MOST_LISTED)
      local earliest, front = math.max(starts_at, now), math.min(first and first.run_after or now, now)
      local kept, changed, due = {}, 0, 0
      for _, job in ipairs(still_pending(add_limits(parse_jobs(text, entries)))) do
        local is_held = job.run_after == held_until
        if #kept > 0 and job.limit ~= ORDERED then
          move(job, ((is_held or job.run_after <= earliest) and front or job.run_after) + WAITS)
        else
          local at = is_held and earliest or math.max(job.run_after, starts_at)
          kept[#kept + 1] = job
          if at ~= job.run_after then
            move(job, at)
            changed, job.run_after, job.entry = changed + 1, at, entry_of(text, job.member, PENDING, at)
            due = due + (at <= now and 1 or 0)
          end
        end
      end
      return kept, changed, due
    end

    -- Lets the next job of a key with a rate through, due when it may be started. Returns how many, how many of them are
    -- due, and whether to look again.
    local function let_paced_through(text, starts_at, held_until)
      local first = add_limits(parse_jobs(text, first_entries(text, WAITING, PAST, 1)))[1]
      local kept, through, due = keep_one(text, first, starts_at, held_until)
      if not first then
        return through, due, false
      end
      local at, other = math.max(first.run_after, starts_at, now), kept[1]
      if other then
        if first.limit == ORDERED or other.limit == ORDERED or at + SOON_MS >= other.run_after then
          return through, due, through == 0 and is_repaired(text)
        end
        move(other, other.run_after + WAITS)
      elseif first.limit and count(text, CLAIMED, THROUGH) >= math.max(first.limit, 1) then
        return through, due, through == 0 and is_repaired(text)
      end
      move(first, at)
      return through + 1, due + (at <= now and 1 or 0), false
    end

    -- Reads the beginning of the line of a key: entries of jobs let through, how many these are, and jobs that wait.
    local function read_line(text, turn_jobs)
      local most = math.min(turn_jobs, MOST_LISTED) + 1
      local entries = first_entries(text, THROUGH, PAST, most)
      local line = {text = text, through = entries, pending = #entries, waiting = {}, is_cut = #entries == most}
      for at, entry in ipairs(entries) do
        if parse_pending(text, entry) >= WAITS then
          line.through, line.pending = {unpack(entries, 1, at - 1)}, at - 1
          line.waiting = parse_jobs(text, {unpack(entries, at)})
          return line
        end
      end
      if line.is_cut then
        line.waiting = parse_jobs(text, first_entries(text, WAITING, PAST, AT_ONCE))
        line.is_cut = #line.waiting == AT_ONCE
        line.through, line.pending = first_entries(text, THROUGH, WAITING, MOST_LISTED), count(text, THROUGH, WAITING)
      end
      return line
    end

    -- Returns how many jobs of a key are claimed.
    local function running(line)
      if not line.claimed then
        line.claimed = first_entries(line.text, CLAIMED, THROUGH, MOST_LISTED)
        line.running = #line.claimed < MOST_LISTED and #line.claimed or count(line.text, CLAIMED, THROUGH)
      end
      return line.running
    end

    -- Returns the jobs that are let through and not due, latest first.
    local function scheduled(line)
      local last = line.through[#line.through]
      if not line.scheduled then
        local has_some = last and (line.pending > #line.through or parse_pending(line.text, last) > now)
        line.scheduled = has_some and read_scheduled(line.text) or {}
      end
      return line.scheduled
    end

    -- Adds the jobs of a key that are let through, and those that make way for them, to "moves". Returns how many are let
    -- through, how many of them are due, and whether to look again.
    local function let_some_through(line, turn_jobs, moves)
      local through, due, pending = 0, 0, line.pending
      for _, job in ipairs(line.waiting) do
        local most = job.limit and math.max(job.limit, 1) or turn_jobs
        if pending + (job.limit and running(line) or 0) < most then
          pending = pending + 1
        else
          local other = scheduled(line)[1]
          if not other or job.limit == ORDERED or job.run_after > other.run_after
            or job.run_after == other.run_after and job.member > other.member then
            return through, due, false
          end
          table.remove(line.scheduled, 1)
          other.moves_to = other.run_after + WAITS
          moves[#moves + 1] = other
        end
        job.moves_to = math.max(job.run_after, now)
        moves[#moves + 1] = job
        through = through + 1
        due = due + (job.run_after <= now and 1 or 0)
      end
      return through, due, line.is_cut
    end

    -- Lets the next jobs of keys without a rate through, given their lines. Returns how many, how many of them are due;
    -- and adds the keys to look at again to "again".
    local function let_all_through(lines, turn_jobs, again)
      local waiting, moves, stuck, through, due = {}, {}, {}, 0, 0
      for _, line in ipairs(lines) do
        for _, job in ipairs(line.waiting) do
          waiting[#waiting + 1] = job
        end
      end
      add_limits(waiting)
      for _, line in ipairs(lines) do
        local some, some_due, is_more = let_some_through(line, turn_jobs, moves)
        through, due = through + some, due + some_due
        if is_more then
          again[line.text] = true
        elseif some == 0 and line.waiting[1] then
          stuck[line.text] = line.through
          for _, entry in ipairs(line.claimed or {}) do
            table.insert(line.through, entry)
          end
        end
      end
      move_all(moves)
      for text in pairs(repair(stuck)) do
        again[text] = true
      end
      return through, due
    end

    -- Stores the keys and the entries of new jobs.
    local function store_new()
      call_in_chunks('HSET', JOB_KEYS, new_keys)
      call_in_chunks('ZADD', TURNS, new_turns)
      new_keys, new_turns, last_added, last_stored = {}, {}, {}, {}
    end

    -- Returns whether a new job is the only one of its key, so that it need not wait; false if its key may have a rate.
    local function is_only_one(text, rate)
      local is_first = not added_keys[text]
      added_keys[text] = true
      return is_first and not rate and not rates.has(text) and not first_entries(text, CLAIMED, PAST, 1)[1]
    end

    -- Returns the latest run_after of the stored PENDING jobs of a key; 0 if there are none.
    local function last_run_after(text)
      local last = last_entries(text, THROUGH, PAST, 1)[1]
      return last and parse_pending(text, last) or 0
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
      local due = without_wait(run_after)
      if is_only_one(text, rate) then
        due = math.max(due, now)
      else
        due = due + WAITS
        rates.note(text, rate, is_imported)
        if limit == ORDERED then
          last_stored[text] = last_stored[text] or last_run_after(text)
          due = math.max(due, last_stored[text], last_added[text] or 0)
        end
        changed_keys[text] = true
      end
      last_added[text] = math.max(due, last_added[text] or 0)
      new_turns[#new_turns + 1] = 0
      new_turns[#new_turns + 1] = entry_of(text, member, PENDING, due)
      keyed.remember(member, text, limit, rate)
      return string.format('%d', due)
    end

    -- Updates the entries of jobs after a change, given their previous records, and if known, the new ones by member.
    function keyed.note(members, lines, new_lines)
      store_new()
      local own, texts, befores, seen = {}, {}, {}, {}
      for at, value in ipairs(read_fields(JOB_KEYS, members)) do
        if value and not seen[members[at]] then
          local size = #own + 1
          seen[members[at]], own[size], befores[size] = true, members[at], lines[at] or ''
          texts[size] = select(2, parse_key(value))
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
          rates.note_start(text)
        elseif state == PENDING and was == FAILED then
          rates.note(text, redis.call('HGET', prefix .. 'job_rates', member), true)
        end
        if old ~= new then
          changed_keys[text] = true
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
      store_new()
      local value = redis.call('HGET', JOB_KEYS, member)
      if not value or tonumber(run_after) < WAITS then
        return tonumber(run_after)
      end
      return parse_key(value) == ORDERED and -1 or without_wait(run_after)
    end

    -- Returns the run_after of a PENDING job that is to be due at another time; one that waits for an ordered key is not
    -- moved ahead of others.
    function keyed.put_off(member, run_after, due)
      local is_earlier = tonumber(due) < without_wait(run_after)
      return is_earlier and keyed.movable_due(member, run_after) < 0 and run_after or due
    end

    -- Returns the run_after of a PENDING job without what is added while it waits for its key.
    function keyed.when_let_through(member, run_after)
      local is_keyed = tonumber(run_after) >= WAITS and redis.call('HEXISTS', JOB_KEYS, member) == 1
      return is_keyed and string.format('%d', without_wait(run_after)) or run_after
    end

    -- Lets jobs of the changed keys through. Returns how many, and how many of them are due. wanted is how many more
    -- jobs a dequeue could take than it has found.
    function keyed.turn(wanted)
      store_new()
      local texts, keys, through, due = changed_keys, 0, 0, 0
      changed_keys, added_keys = {}, {}
      for _ in pairs(texts) do
        keys = keys + 1
      end
      local turn_jobs = math.max(TURN_JOBS, math.floor((wanted or 0) / keys))
      while next(texts) do
        local again, lines = {}, {}
        for text in pairs(texts) do
          local starts_at, held_until = rates.settle(text)
          if starts_at then
            local some, some_due, is_more = let_paced_through(text, starts_at, held_until)
            through, due, again[text] = through + some, due + some_due, is_more or nil
          else
            lines[#lines + 1] = read_line(text, turn_jobs)
          end
        end
        local some, some_due = let_all_through(lines, turn_jobs, again)
        through, due, texts = through + some, due + some_due, again
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
