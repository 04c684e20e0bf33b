-- Jobs -> gone, if they still are in the given state. ARGV[2] idempotency key or empty, [3] for how many ms its result is
-- kept, [4] most jobs in all calls with this key, or empty: the first does it all; [5] state, [6] priority;
-- [7]: MessagePack, a list of ids.
-- Returns how many, and how many all calls with the key have deleted.
-- with records earliest changes results
local before, most = recall(ARGV[2]), tonumber(ARGV[4])
if before and not most then
  return {0, before}
end
before = before or 0
local asked, gone, seen = {}, {}, {}
for at, id in ipairs(cmsgpack.unpack(ARGV[7])) do
  asked[at] = member_of(id)
end
for at, line in ipairs(read(JOBS, asked)) do
  local state, priority = string.match(line or '', '^(%d) (%d+)')
  if state == ARGV[5] and priority == ARGV[6] and not seen[asked[at]] and (not most or before + #gone < most) then
    seen[asked[at]] = true
    gone[#gone + 1] = asked[at]
  end
end
local places = {
  [PENDING] = {'p' .. ARGV[6]}, [IN_PROGRESS] = {'claims'}, [SUCCEEDED] = {'s' .. ARGV[6], 'S'},
  [FAILED] = {'f' .. ARGV[6], 'F'}
}
for _, place in ipairs(places[ARGV[5]]) do
  all('ZREM', prefix .. place, gone)
end
forget_keys(gone)
all('HDEL', JOBS, gone)
all('HDEL', prefix .. 'bodies', gone)
all('HDEL', prefix .. 'status', gone)
keep(ARGV[2], ARGV[3], before + #gone)
return {#gone, before + #gone}
