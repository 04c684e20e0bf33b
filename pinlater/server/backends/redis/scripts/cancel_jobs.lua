-- PENDING -> FAILED, marked as cancelled; IN_PROGRESS, or PENDING with something to undo -> the same, asked to stop,
-- and if PENDING, due.
-- ARGV[2]: MessagePack, a list of {priority, id}; [3] text to append to the status of jobs that were not cancelled or
-- asked to stop before; [4] "links".
-- Returns {list indexes of the jobs that are cancelled, of those that are asked to stop, both also by earlier calls, of
-- those of both that may have children to cancel; number of jobs that this call has cancelled, of other jobs let
-- through, ended sleeps: see links.lua}.
-- parts: when_full records members features failures key_rates key_entries key_turns keys due_index changes custom_status successes families inboxes links
local jobs = cmsgpack.unpack(ARGV[2])
local members = members_of(jobs, 2)
local befores = read_fields(JOBS, members)
linked = open_links(members)
local ended, asked, parents, is_done, waiting, asleep = {}, {}, {}, {}, {}, {}
local newly_ended = 0

local function note_status(member)
  if ARGV[3] ~= '' then
    extend_status(member, '', ARGV[3])
  end
end

local function ask(at, member, priority)
  asked[#asked + 1] = at - 1
  if not linked.is_cancelled(member) then
    end_periods({member})
    note_status(member)
    linked.mark(member, priority)
    over[#over + 1] = member
    return true
  end
end

local function cancel(member, priority, ...)
  local key = prefix .. 'p' .. priority
  waiting[key] = waiting[key] or {}
  waiting[key][#waiting[key] + 1] = member
  end_periods({member})
  end_job(member, priority, ...)
  note_status(member)
  linked.mark(member, priority)
  linked.note(member, priority, FAILED)
  over[#over + 1] = member
end

for at, line in ipairs(befores) do
  local member = members[at]
  local state, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if tonumber(priority) == jobs[at][1] and not is_done[member] then
    is_done[member] = true
    if state == IN_PROGRESS then
      ask(at, member, priority)
    elseif state == PENDING and linked.has_to_undo(member) then
      if ask(at, member, priority) then
        asleep[#asleep + 1] = member
      end
    elseif state == PENDING then
      ended[#ended + 1] = at - 1
      newly_ended = newly_ended + 1
      run_after = keyed and keyed.when_let_through(member, run_after) or run_after
      run_after = tonumber(run_after) > now and NOW or run_after -- counts and scans would take it for a future job
      cancel(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
    elseif state == FAILED and linked.is_cancelled(member) then
      ended[#ended + 1] = at - 1
    end
    if linked.is_cancelled(member) and linked.may_have_children(member) then
      parents[#parents + 1] = at - 1
    end
  end
end
for key, list in pairs(waiting) do
  call_in_chunks('ZREM', key, list)
end
local through = apply_and_turn(members, befores)
for _, member in ipairs(asleep) do -- last, since it may change other jobs of their keys
  linked.wake(member, redis.call('HGET', JOBS, member))
end
return {ended, asked, parents, newly_ended, through, linked.tell()}
