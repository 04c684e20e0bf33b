-- Jobs as they are kept. A job's member is its id with a letter for the number of digits before it (a7, b42, c100), so
-- that members of equal score are in the order of their ids. Its record is one line of text in the hash "jobs":
--   state priority attempts_allowed attempts_remaining created_at run_after updated_at lease body_bytes claim
-- The claim comes last because it may contain anything; it is empty when nobody holds, or held, the job.
-- Ids are exact below 2^53, and so is the order of times; a later run_after is kept exactly, in its record.
local RECORD = '^(%d) (%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%d+) (%d+) (.*)$'
local PENDING, IN_PROGRESS, SUCCEEDED, FAILED = '0', '1', '2', '3'

local DIGITS = {}
for digits = 1, 20 do
  DIGITS[digits] = string.char(96 + digits)
end

local function member_of(id)
  local text = string.format('%d', id)
  return DIGITS[#text] .. text
end

local function record(state, priority, allowed, remaining, created, run_after, updated, lease, bytes, claim)
  return state .. ' ' .. priority .. ' ' .. allowed .. ' ' .. remaining .. ' ' .. created .. ' ' .. run_after
    .. ' ' .. updated .. ' ' .. lease .. ' ' .. bytes .. ' ' .. claim
end

-- A time as text: given as a number; as text, where a number would not hold it; or as nil, which means now.
local function time_text(time)
  if not time then
    return NOW
  end
  return type(time) == 'string' and time or string.format('%d', time)
end
