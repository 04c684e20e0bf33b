-- IN_PROGRESS with an expired claim -> PENDING with one attempt less, or FAILED after the last one or if it is asked to
-- stop and has nothing to undo; the longest expired first.
-- ARGV[2] number of claims to read, [3] number to skip before them; [4] age of the server and [5] its grace period, in
-- ms: while the server is younger, claims whose lease is longer than its age are spared; [6] the group of expired
-- claims, [7]: MessagePack {budget, groups} with that group, see failure_groups.lua.
-- Returns {claims read, claims spared, jobs now PENDING, jobs now FAILED, ended sleeps: see links.lua}.
-- parts: when_full records features failures key_rates key_entries key_turns keys due_index changes successes families inboxes links failure_groups
local age, quiet = tonumber(ARGV[4]), tonumber(ARGV[5])
local members = redis.call('ZRANGEBYSCORE', CLAIMS, '-inf', NOW, 'LIMIT', ARGV[3], ARGV[2])
local spared, retried, failed = 0, 0, 0
local failing = {}
local lines = read_fields(JOBS, members)
linked = open_links and open_links(members)
for at, line in ipairs(lines) do
  local _, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line or '', RECORD)
  if not claim then
    leaving[#leaving + 1] = members[at]
  elseif age < quiet and math.min(tonumber(lease), quiet) > age then
    spared = spared + 1
  else
    local is_asked = linked and linked.is_cancelled(members[at])
    local is_last = is_asked and linked.is_to_end(members[at])
    if is_last then
      end_job(members[at], priority, allowed, math.max(remaining - 1, 0), created, run_after, lease, bytes, claim)
    else
      is_last = select(2,
        end_attempt(members[at], false, NOW, priority, allowed, remaining, created, run_after, lease, bytes, claim))
    end
    if is_asked then
      over[#over + 1] = members[at]
    else
      tried[#tried + 1] = members[at]
      failing[#failing + 1] = members[at]
      failing[#failing + 1] = ARGV[6]
    end
    if linked then
      linked.note(members[at], priority, is_last and FAILED or PENDING)
    end
    if is_last then
      failed = failed + 1
    else
      retried = retried + 1
    end
  end
end
if #tried > 0 then
  keep_groups(unpack(cmsgpack.unpack(ARGV[7])))
  call_in_chunks('HSET', prefix .. 'failing', failing)
end
apply_and_turn(members, lines)
reindex_due('claims')
return {#members, spared, retried, failed, linked and linked.tell()}
