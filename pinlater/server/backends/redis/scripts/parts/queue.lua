-- The start of every script about one queue. KEYS[1] is the queue: a string with the number of its present generation.
-- All other keys of the queue begin with KEYS[1].
local generation = redis.call('GET', KEYS[1])
if not generation then
  return {err = 'NOQUEUE there is no such queue'}
end
local prefix = KEYS[1] .. ':' .. generation .. ':'
local JOBS, CLAIMS = prefix .. 'jobs', prefix .. 'claims'

