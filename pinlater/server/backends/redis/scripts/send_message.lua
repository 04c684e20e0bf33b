-- Stores a message to a job that has not finished, and ends its sleep if it waits for that. ARGV[2] queue, [3] priority,
-- [4] id of the job; [5] name of the message, [6] its id, [7] a digit for its kind, [8] payload; [9] "links".
-- Returns {1 if there is such a job, ended sleeps: see links.lua}.
-- parts: records features keys inboxes
local is_there =
  inboxes.deliver(ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), {[ARGV[5]] = {{ARGV[6], ARGV[7], ARGV[8]}}})
return {is_there and 1 or 0, inboxes.woken}
