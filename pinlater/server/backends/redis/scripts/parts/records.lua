-- Job records. A job's member is its id after a letter for the number of digits (a7, b42, c100), so that members with
-- the same score are ordered by id. Its record is one line of text in the hash "jobs":
--   state priority attempts_allowed attempts_remaining created_at run_after updated_at lease body_bytes claim
-- The lease of a job that has SUCCEEDED, which nobody needs any more, may be "0" followed by its run time in ms.
-- The body_bytes of a job that was retried by hand with more attempts than it is allowed has an extra 0 in front.
-- The claim comes last because it may contain any character; it is empty when nobody has claimed the job. Ids and
-- the order of times are exact below 2^53; a later run_after is exact in the record.
local RECORD = '^(%d) (%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%d+) (%d+) (.*)$'
local PENDING, IN_PROGRESS, SUCCEEDED, FAILED = '0', '1', '2', '3'

-- The letters for 1 to 20 digits, written out since each call of a script builds this table.
local DIGITS = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't'}

local function member_of(id)
  local text = string.format('%d', id)
  return DIGITS[#text] .. text
end

local function record(state, priority, allowed, remaining, created, run_after, updated, lease, bytes, claim)
  return state .. ' ' .. priority .. ' ' .. allowed .. ' ' .. remaining .. ' ' .. created .. ' ' .. run_after
    .. ' ' .. updated .. ' ' .. lease .. ' ' .. bytes .. ' ' .. claim
end

-- Formats a time, which is given as a number, as a string if beyond 2^53, or as nil for now.
local function time_text(time)
  if not time then
    return NOW
  end
  return type(time) == 'string' and time or string.format('%d', time)
end
