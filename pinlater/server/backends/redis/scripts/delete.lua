-- Jobs -> gone, if they still are in the given state. ARGV[2] state, [3] priority; [4]: MessagePack, a list of ids.
-- Returns how many.
-- with records changes
local asked, gone, seen = {}, {}, {}
for at, id in ipairs(cmsgpack.unpack(ARGV[4])) do
  asked[at] = member_of(id)
end
for at, line in ipairs(read(JOBS, asked)) do
  local state, priority = string.match(line or '', '^(%d) (%d+)')
  if state == ARGV[2] and priority == ARGV[3] and not seen[asked[at]] then
    seen[asked[at]] = true
    gone[#gone + 1] = asked[at]
  end
end
local places = {
  [PENDING] = {'p' .. ARGV[3]}, [IN_PROGRESS] = {'claims'}, [SUCCEEDED] = {'s' .. ARGV[3], 'S'},
  [FAILED] = {'f' .. ARGV[3], 'F'}
}
for _, place in ipairs(places[ARGV[2]]) do
  all('ZREM', prefix .. place, gone)
end
forget_keys(gone)
all('HDEL', JOBS, gone)
all('HDEL', prefix .. 'bodies', gone)
all('HDEL', prefix .. 'status', gone)
return #gone
