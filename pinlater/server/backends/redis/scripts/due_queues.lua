-- Finds the queues that may have work for the monitor: those whose entry in the due index is at least as old as an age.
-- KEYS[1] is the prefix of the due index, see due_index.lua. ARGV[2] most queues of a kind; then pairs: [3] "claims",
-- "S", "F" or "failures", [4] age in ms.
-- Returns a list of queue names for each pair.
-- standalone
-- parts: clock
local found = {}
for at = 3, #ARGV, 2 do
  local latest = string.format('%d', now - ARGV[at + 1])
  found[#found + 1] =
    redis.call('ZRANGEBYSCORE', KEYS[1] .. ':' .. ARGV[at], '-inf', latest, 'LIMIT', 0, ARGV[2])
end
return found
