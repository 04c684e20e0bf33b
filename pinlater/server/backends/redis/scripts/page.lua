-- Jobs of one state and priority, latest run_after first, behind a position.
-- ARGV[2] "p", "s" or "f": pending, succeeded, failed; [3] priority; [4] "due", "future" or empty for both; [5] and [6]
-- run_after and id of the position, empty at the start; [7] most jobs.
-- Returns {now, members, records, statuses, unique keys}; fewer than asked for at the end.
local key = prefix .. ARGV[2] .. ARGV[3]
local low, start = '-inf', 0
if ARGV[4] == 'due' then
  start = redis.call('ZCOUNT', key, '(' .. NOW, '+inf')
elseif ARGV[4] == 'future' then
  low = '(' .. NOW
end

-- How many jobs stand before a position, or at it: those of a later run_after, and of the same those of no lower id,
-- found by halving.
local function behind(run_after, id)
  local above = redis.call('ZCOUNT', key, '(' .. run_after, '+inf')
  local from, to = 0, redis.call('ZCOUNT', key, run_after, run_after)
  while from < to do
    local middle = math.floor((from + to) / 2)
    local member = redis.call('ZREVRANGE', key, above + middle, above + middle)[1]
    if tonumber(string.sub(member, 2)) >= id then
      from = middle + 1
    else
      to = middle
    end
  end
  return above + from
end

if ARGV[5] ~= '' then
  start = math.max(start, behind(ARGV[5], tonumber(ARGV[6])))
end
local last = redis.call('ZCOUNT', key, low, '+inf') - 1
local members = redis.call('ZREVRANGE', key, start, math.min(start + ARGV[7] - 1, last))
if last < start then
  members = {}
end
return {NOW, members, read(JOBS, members), read(prefix .. 'status', members), read(prefix .. 'keys', members)}
