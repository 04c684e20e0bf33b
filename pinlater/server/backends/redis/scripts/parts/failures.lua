-- Failure groups. The hash "failing" maps the member of a job whose last attempt failed to its group, until the job
-- succeeds, is cancelled, is retried by hand or gets new attempts. While such a job is PENDING, it is also in two
-- sorted sets by run_after: "r" priority, and "g" group ":p"; while it is FAILED, in "g" group ":f". The facts that the
-- failures of a group share are in the hash "failures", the time of its last failure in the sorted set "failed_last".
--
-- Such a job has fewer attempts left than it is allowed, or was retried by hand with more than it is allowed. Scripts
-- do not look up any others: they put jobs that they have changed into "tried", and jobs that leave their groups into
-- "over"; after all other changes, "settle_changed" updates the sorted sets for both.
--
-- All of that is defined if HAS_FAILURES; see keys.lua for the reason.
local tried, over, may_have_failed, settle_failing, settle_changed
if HAS_FAILURES then
  tried, over = {}, {}
  local byte = string.byte

  -- Returns whether the last attempt of a job may have failed, going by its record; false for most jobs.
  function may_have_failed(allowed, remaining, bytes)
    return remaining ~= allowed or byte(bytes) == 48 and #bytes > 1
  end

  -- Updates the sorted sets of jobs. is_over: the jobs leave their groups; call it while they still have records.
  function settle_failing(prefix, members, is_over)
    local own, groups = {}, {}
    for at, group in ipairs(read_fields(prefix .. 'failing', members)) do
      if group then
        own[#own + 1], groups[#groups + 1] = members[at], group
      end
    end
    if #own == 0 then
      return
    end
    local added, removed, gone = {}, {}, {}
    local function put(key, member, run_after)
      local lists = run_after and added or removed
      lists[key] = lists[key] or {}
      if run_after then
        table.insert(lists[key], run_after)
      end
      table.insert(lists[key], member)
    end
    for at, line in ipairs(read_fields(prefix .. 'jobs', own)) do
      local member, group = own[at], prefix .. 'g' .. groups[at]
      local state, priority, allowed, remaining, _, run_after, _, _, bytes = string.match(line or '', RECORD)
      if is_over or not state or state == SUCCEEDED
        or state ~= FAILED and not may_have_failed(allowed, remaining, bytes) then
        gone[#gone + 1] = member
        put(prefix .. 'r' .. (priority or '1'), member)
        put(group .. ':p', member)
        put(group .. ':f', member)
      elseif state == PENDING then
        put(prefix .. 'r' .. priority, member, run_after)
        put(group .. ':p', member, run_after)
      elseif state == FAILED then
        put(group .. ':f', member, run_after)
      else
        put(prefix .. 'r' .. priority, member)
        put(group .. ':p', member)
      end
    end
    for key, list in pairs(added) do
      call_in_chunks('ZADD', key, list)
    end
    for key, list in pairs(removed) do
      call_in_chunks('ZREM', key, list)
    end
    call_in_chunks('HDEL', prefix .. 'failing', gone)
  end

  function settle_changed()
    settle_failing(prefix, over, true)
    settle_failing(prefix, tried)
  end
end
