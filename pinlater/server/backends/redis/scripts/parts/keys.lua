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
    local WAITS, TURN_JOBS, AT_ONCE, MOST_REPAIRED, ORDERED = 4503599627370496, 1, 10, 100, 0
    local SOON_MS, MOST_THROUGH = 1000, 100
    -- Where the entries of a key's claimed jobs begin, those of the jobs let through, those of the waiting ones, and
    -- where they end.
    local CLAIMED, THROUGH, WAITING, PAST = '\0c', '\0p', '\0p' .. string.format('%016d', WAITS), '\1'
    local changed_keys, rates = {}, open_rates(prefix)

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

    -- Changes the run_after of a PENDING job; returns the new one as text.
    local function put_at(member, line, run_after)
      local _, priority, allowed, remaining, created, _, updated, lease, bytes, claim = string.match(line, RECORD)
      local text = string.format('%d', run_after)
      redis.call('HSET', JOBS, member,
        record(PENDING, priority, allowed, remaining, created, text, updated, lease, bytes, claim))
      redis.call('ZADD', prefix .. 'p' .. priority, text, member)
      if may_have_failed(allowed, remaining, bytes) then
        settle_failing(prefix, {member})
      end
      return text
    end

    -- Puts a job in line that a script has left PENDING; a job that was let through before stays let through. Returns
    -- its state and run_after.
    local function put_in_line(member, line, was_state, was_run_after)
      local state, _, _, _, _, run_after = string.match(line or '', RECORD)
      if state == PENDING then
        local is_through = was_state == IN_PROGRESS or was_state == PENDING and tonumber(was_run_after) < WAITS
        local due = is_through and math.min(math.max(run_after, 0), WAITS - 1) or without_wait(run_after) + WAITS
        if due ~= tonumber(run_after) then
          run_after = put_at(member, line, due)
        end
      end
      return state, run_after
    end

    -- Parses entries of PENDING jobs of a key: member, run_after without what is added while it waits, limit.
    local function read_jobs(text, entries)
      local jobs, members = {}, {}
      for at, entry in ipairs(entries) do
        local run_after, member = parse_pending(text, entry)
        members[at], jobs[at] = member, {entry = entry, member = member, run_after = run_after % WAITS}
      end
      for at, value in ipairs(read_fields(JOB_KEYS, members)) do
        jobs[at].limit = value and parse_key(value)
      end
      return jobs
    end

    -- Reads the jobs that are let through and not due, latest first, without the ordered one if there is any.
    local function read_scheduled(text)
      local later = THROUGH .. string.format('%016d', now + 1)
      local jobs = read_jobs(text, last_entries(text, later, WAITING, AT_ONCE + 1))
      for at = #jobs, 1, -1 do
        if jobs[at].limit == ORDERED then
          table.remove(jobs, at)
        end
      end
      return jobs
    end

    local function move(text, job, run_after)
      redis.call('ZREM', TURNS, job.entry)
      local line = redis.call('HGET', JOBS, job.member)
      if line then
        redis.call('ZADD', TURNS, 0, entry_of(text, job.member, PENDING, put_at(job.member, line, run_after)))
      end
    end

    -- Servers of earlier versions claim and end jobs without recording it here. Corrects the entries of the first jobs
    -- of a key; returns whether any was wrong.
    local function repair(text)
      local entries, members, is_changed = first_entries(text, CLAIMED, WAITING, MOST_REPAIRED), {}, false
      for at, entry in ipairs(entries) do
        local kind = string.sub(entry, #text + 2, #text + 2)
        members[at] = string.sub(entry, #text + (kind == 'c' and 3 or 19))
      end
      for at, line in ipairs(read_fields(JOBS, members)) do
        local state, _, _, _, _, run_after = string.match(line or '', RECORD)
        local right = entry_of(text, members[at], state, run_after)
        if right ~= entries[at] then
          is_changed = true
          redis.call('ZREM', TURNS, entries[at])
          if right then
            redis.call('ZADD', TURNS, 0, right)
          end
        end
      end
      return is_changed
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
      local entries = first_entries(text, THROUGH, WAITING, MOST_THROUGH)
      local earliest, front = math.max(starts_at, now), math.min(first and first.run_after or now, now)
      local kept, changed, due = {}, 0, 0
      for _, job in ipairs(still_pending(read_jobs(text, entries))) do
        local is_held = job.run_after == held_until
        if #kept > 0 and job.limit ~= ORDERED then
          move(text, job, ((is_held or job.run_after <= earliest) and front or job.run_after) + WAITS)
        else
          local at = is_held and earliest or math.max(job.run_after, starts_at)
          kept[#kept + 1] = job
          if at ~= job.run_after then
            move(text, job, at)
            changed, job.run_after, job.entry = changed + 1, at, entry_of(text, job.member, PENDING, at)
            due = due + (at <= now and 1 or 0)
          end
        end
      end
      return kept, changed, due
    end

    -- Lets the next job of a key with a rate through, due when it may be started. Returns the same as let_some_through.
    local function let_paced_through(text, starts_at, held_until)
      local first = read_jobs(text, first_entries(text, WAITING, PAST, 1))[1]
      local kept, through, due = keep_one(text, first, starts_at, held_until)
      if not first then
        return through, due, false
      end
      local at, other = math.max(first.run_after, starts_at, now), kept[1]
      if other then
        if first.limit == ORDERED or other.limit == ORDERED or at + SOON_MS >= other.run_after then
          return through, due, through == 0 and repair(text)
        end
        move(text, other, other.run_after + WAITS)
      elseif first.limit and count(text, CLAIMED, THROUGH) >= math.max(first.limit, 1) then
        return through, due, through == 0 and repair(text)
      end
      move(text, first, at)
      return through + 1, due + (at <= now and 1 or 0), false
    end

    -- Lets the next jobs of a key through. Returns how many, how many of them are due, and whether there may be more.
    local function let_some_through(text, turn_jobs)
      local starts_at, held_until = rates.settle(text)
      if starts_at then
        return let_paced_through(text, starts_at, held_until)
      end
      local waiting = first_entries(text, WAITING, PAST, AT_ONCE)
      if #waiting == 0 then
        return 0, 0, false
      end
      local running, pending, scheduled = count(text, CLAIMED, THROUGH), count(text, THROUGH, WAITING), nil
      local through, due, pending_due = 0, 0, nil
      for _, job in ipairs(read_jobs(text, waiting)) do
        local most = job.limit and math.max(job.limit, 1) - running or turn_jobs
        if pending < most then
          pending = pending + 1
        else
          scheduled = scheduled or read_scheduled(text)
          local other = scheduled[1]
          pending_due = pending_due or other and count(text, THROUGH, THROUGH .. string.format('%016d', now + 1))
          if not other or pending_due + through >= most or job.limit == ORDERED or job.run_after > other.run_after
            or job.run_after == other.run_after and job.member > other.member then
            return through, due, repair(text)
          end
          table.remove(scheduled, 1)
          move(text, other, other.run_after + WAITS)
        end
        move(text, job, math.max(job.run_after, now))
        through = through + 1
        due = due + (job.run_after <= now and 1 or 0)
      end
      return through, due, #waiting == AT_ONCE
    end

    -- Stores the key of a new job.
    function keyed.remember(member, text, limit, rate)
      if rate then
        redis.call('HSET', prefix .. 'job_rates', member, rate)
      end
      redis.call('HSET', JOB_KEYS, member, (limit and string.format('%d', limit) or '') .. ' ' .. text)
    end

    -- Stores the key of a new PENDING job, and puts the job in line; returns the run_after to store it with.
    function keyed.add(member, text, limit, run_after, rate, is_imported)
      rates.note(text, rate, is_imported)
      local due = without_wait(run_after) + WAITS
      if limit == ORDERED then
        local last = last_entries(text, THROUGH, PAST, 1)[1]
        due = math.max(due, last and parse_pending(text, last) or 0)
      end
      keyed.remember(member, text, limit, rate)
      redis.call('ZADD', TURNS, 0, entry_of(text, member, PENDING, due))
      changed_keys[text] = true
      return string.format('%d', due)
    end

    -- Updates the entries of jobs after a change, given their previous records.
    function keyed.note(members, lines)
      local own, texts, befores, seen = {}, {}, {}, {}
      for at, value in ipairs(read_fields(JOB_KEYS, members)) do
        if value and not seen[members[at]] then
          local size = #own + 1
          seen[members[at]], own[size], befores[size] = true, members[at], lines[at] or ''
          texts[size] = select(2, parse_key(value))
        end
      end
      local removed, added = {}, {}
      for at, line in ipairs(read_fields(JOBS, own)) do
        local member, text = own[at], texts[at]
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
      local keys, through, due = 0, 0, 0
      for _ in pairs(changed_keys) do
        keys = keys + 1
      end
      local turn_jobs = math.max(TURN_JOBS, math.floor((wanted or 0) / keys))
      for text in pairs(changed_keys) do
        local some, some_due, is_more
        repeat
          some, some_due, is_more = let_some_through(text, turn_jobs)
          through, due = through + some, due + some_due
        until not is_more
      end
      changed_keys = {}
      return through, due
    end

    -- Does both; returns how many jobs are let through.
    function keyed.note_and_turn(members, lines)
      keyed.note(members, lines)
      return (keyed.turn())
    end
    return keyed
  end
  keyed = HAS_SHARED_KEYS and open_keys(prefix, JOBS) or nil
end
