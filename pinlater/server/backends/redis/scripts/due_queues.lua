-- Queues in which the monitor may have something to do: those whose first claim, succeeded or failed job is of that time or
-- earlier. KEYS[1] begins the keys of the moments, see earliest.lua. ARGV[2] most queues of a kind; [3] "claims", "S" or
-- "F", [4] age in ms, and so on in pairs.
-- Returns a list of names for each kind.
-- alone
-- with clock
local found = {}
for at = 3, #ARGV, 2 do
  local latest = string.format('%d', now - ARGV[at + 1])
  found[#found + 1] =
    redis.call('ZRANGEBYSCORE', KEYS[1] .. ':' .. ARGV[at], '-inf', latest, 'LIMIT', 0, ARGV[2])
end
return found
