-- Lets jobs of keys through; see keys.lua for the entries of a key, and key_turns.py for the decisions.
local open_turns
if HAS_SHARED_KEYS or HAS_LINKS then
  -- Returns the functions for the queue whose Redis keys begin with this prefix; see open_entries.
  function open_turns(prefix, JOBS, entries)
    local turns = {}
    local AT_ONCE, SOON_MS, MOST_LISTED = 10, 1000, entries.MOST_LISTED
    local JOB_KEYS = prefix .. 'job_keys'
    local TURNS, WAITS, ORDERED = entries.TURNS, entries.WAITS, entries.ORDERED
    local CLAIMED, THROUGH, WAITING, PAST = entries.CLAIMED, entries.THROUGH, entries.WAITING, entries.PAST
    local entry_of, parse_pending, parse_jobs = entries.entry_of, entries.parse_pending, entries.parse_jobs
    local first_entries, last_entries, count = entries.first_entries, entries.last_entries, entries.count

    -- Changes the run_after of PENDING jobs.
    function turns.put_at(members, lines, runs_after)
      local records, scores, failing = {}, {}, {}
      for at, member in ipairs(members) do
        local _, priority, allowed, remaining, created, _, updated, lease, bytes, claim = string.match(lines[at], RECORD)
        local text, list = string.format('%d', runs_after[at]), scores[priority] or {}
        records[2 * at - 1] = member
        records[2 * at] = record(PENDING, priority, allowed, remaining, created, text, updated, lease, bytes, claim)
        scores[priority] = list
        list[#list + 1] = text
        list[#list + 1] = member
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

    -- Adds the limits of jobs; returns the jobs.
    local function add_limits(jobs)
      local members = {}
      for at, job in ipairs(jobs) do
        members[at] = job.member
      end
      for at, value in ipairs(read_fields(JOB_KEYS, members)) do
        jobs[at].limit = value and entries.parse_key(value)
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
      turns.put_at(moved, lines, runs_after)
      call_in_chunks('ZADD', TURNS, added)
    end

    local function move(job, run_after)
      job.moves_to = run_after
      move_all({job})
    end

    -- Servers of earlier versions claim and end jobs without recording it here. Corrects entries of claimed jobs and of
    -- those let through, given by key; returns the keys of which any was wrong.
    local function repair(entries_of)
      local texts, found, members, repaired = {}, {}, {}, {}
      for text, some in pairs(entries_of) do
        for _, entry in ipairs(some) do
          local size, kind = #members + 1, string.sub(entry, #text + 2, #text + 2)
          texts[size], found[size] = text, entry
          members[size] = string.sub(entry, #text + (kind == 'c' and 3 or 19))
        end
      end
      for at, line in ipairs(read_fields(JOBS, members)) do
        local state, _, _, _, _, run_after = string.match(line or '', RECORD)
        local right = entry_of(texts[at], members[at], state, run_after)
        if right ~= found[at] then
          repaired[texts[at]] = true
          redis.call('ZREM', TURNS, found[at])
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
      local found = first_entries(text, THROUGH, WAITING, MOST_LISTED)
      local earliest, front = math.max(starts_at, now), math.min(first and first.run_after or now, now)
      local kept, changed, due = {}, 0, 0
      for _, job in ipairs(still_pending(add_limits(parse_jobs(text, found)))) do
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
    function turns.let_paced_through(text, starts_at, held_until)
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

    -- Completes a line: entries of jobs let through, how many these are, and jobs that wait.
    local function complete(line)
      local text, through, waiting = line.text, {}, {}
      for _, entry in ipairs(line.entries) do
        local is_waiting = parse_pending(text, entry) >= WAITS
        table.insert(is_waiting and waiting or through, entry)
      end
      line.pending = #through
      if #waiting == 0 then
        waiting = first_entries(text, WAITING, PAST, AT_ONCE)
        line.is_cut = #waiting == AT_ONCE
        if #waiting > 0 then
          through, line.pending = first_entries(text, THROUGH, WAITING, MOST_LISTED), count(text, THROUGH, WAITING)
        end
      end
      line.through, line.waiting = through, parse_jobs(text, waiting)
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
      local through, due, pending, pending_due = 0, 0, line.pending, nil
      for _, job in ipairs(line.waiting) do
        local most = job.limit and math.max(job.limit, 1) - running(line) or turn_jobs
        if pending < most then
          pending = pending + 1
        else
          local other = scheduled(line)[1]
          pending_due = pending_due or other and count(line.text, THROUGH, THROUGH .. string.format('%016d', now + 1))
          if not other or pending_due + through >= most or job.limit == ORDERED or job.run_after > other.run_after
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

    -- Lets the next jobs of keys without a rate through, given their lines as read_line returns them. Returns how many,
    -- how many of them are due; and adds the keys to look at again to "again".
    function turns.let_all_through(lines, turn_jobs, again)
      local waiting, moves, stuck, through, due = {}, {}, {}, 0, 0
      for _, line in ipairs(lines) do
        complete(line)
        for _, job in ipairs(line.waiting) do
          waiting[#waiting + 1] = job
        end
      end
      add_limits(waiting)
      for _, line in ipairs(lines) do
        local some, some_due, is_more = let_some_through(line, turn_jobs, moves)
        through, due = through + some, due + some_due
        if is_more then
          again[line.text] = line.limit
        elseif some == 0 and line.waiting[1] then
          stuck[line.text] = line.through
          for _, entry in ipairs(line.claimed or {}) do
            table.insert(line.through, entry)
          end
        end
      end
      move_all(moves)
      for text in pairs(repair(stuck)) do
        again[text] = 0
      end
      return through, due
    end
    return turns
  end
end
