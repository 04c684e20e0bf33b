-- Reads one page of the jobs of one state and priority, latest run_after first.
-- ARGV[2] "p", "s" or "f": pending, succeeded or failed; [3] priority; [4] "due", "future" or empty for both; [5]
-- run_after and [6] id of the last job of the previous page, empty at the start; [7] limit.
-- Returns {now, members, records, statuses, unique keys, keys, links}; fewer jobs than the limit at the end.
local key = prefix .. ARGV[2] .. ARGV[3]
local low, start = '-inf', 0
if ARGV[4] == 'due' then
  start = redis.call('ZCOUNT', key, '(' .. NOW, '+inf')
elseif ARGV[4] == 'future' then
  low = '(' .. NOW
end

-- Returns how many jobs precede the next page: those of a later run_after, and those of the same run_after and no lower
-- id, found by binary search.
local function rank_after(run_after, id)
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
  start = math.max(start, rank_after(ARGV[5], tonumber(ARGV[6])))
end
local last = redis.call('ZCOUNT', key, low, '+inf') - 1
local members = redis.call('ZREVRANGE', key, start, math.min(start + ARGV[7] - 1, last))
if last < start then
  members = {}
end
return {
  NOW, members, read_fields(JOBS, members), read_fields(prefix .. 'status', members),
  read_fields(prefix .. 'keys', members), read_fields(prefix .. 'job_keys', members),
  read_fields(prefix .. 'links', members)
}
