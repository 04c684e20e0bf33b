-- Reads one page of the jobs of one state and priority, latest run_after first.
-- ARGV[2] "p", "s", "f" or "r": pending, succeeded, failed or retrying; or "g", a failure group, and ":p" or ":f"; [3]
-- priority, empty for a failure group; [4] "due", "future" or empty for both; [5] run_after and [6] id of the last job
-- of the previous page, empty at the start; [7] limit; [8] "oldest": earliest run_after first.
-- Returns {now, members, records, statuses, unique keys, shared keys, links, failure groups}; fewer jobs than the limit
-- mean the end.
-- parts: any_links families job_columns
local key, is_oldest = prefix .. ARGV[2] .. ARGV[3], ARGV[8] == 'oldest'
local low, high = '-inf', '+inf'
if ARGV[4] == 'due' then
  high = NOW
elseif ARGV[4] == 'future' then
  low = '(' .. NOW
end
local RANGE = is_oldest and 'ZRANGE' or 'ZREVRANGE'

-- Returns how many jobs stand before a run_after in the order of the scan.
local function count_before(run_after)
  if is_oldest then
    return redis.call('ZCOUNT', key, '-inf', '(' .. run_after)
  end
  return redis.call('ZCOUNT', key, '(' .. run_after, '+inf')
end

-- Returns how many jobs stand before the next page: those before the last job's run_after, and those with the same
-- run_after up to and including that job, found by binary search.
local function rank_after(run_after, id)
  local before = count_before(run_after)
  local from, to = 0, redis.call('ZCOUNT', key, run_after, run_after)
  while from < to do
    local middle = math.floor((from + to) / 2)
    local member = redis.call(RANGE, key, before + middle, before + middle)[1]
    local other = tonumber(string.sub(member, 2))
    if is_oldest and other <= id or not is_oldest and other >= id then
      from = middle + 1
    else
      to = middle
    end
  end
  return before + from
end

local start, last
if is_oldest then
  start = low == '-inf' and 0 or redis.call('ZCOUNT', key, '-inf', NOW)
  last = redis.call('ZCOUNT', key, '-inf', high) - 1
else
  start = high == '+inf' and 0 or redis.call('ZCOUNT', key, '(' .. NOW, '+inf')
  last = redis.call('ZCOUNT', key, low, '+inf') - 1
end
if ARGV[5] ~= '' then
  start = math.max(start, rank_after(ARGV[5], tonumber(ARGV[6])))
end
local members = last >= start and redis.call(RANGE, key, start, math.min(start + ARGV[7] - 1, last)) or {}
return {NOW, members, read_jobs(members)}
