-- Stores a message to a job that has not finished, and ends its sleep if it waits for that message. ARGV[2] address of
-- the job, see inboxes.lua; [3] name of the message, [4] its id, [5] a digit for its kind, [6] payload; [7] "links".
-- Returns {1 if there is such a job, otherwise 0; ended sleeps: see links.lua}.
-- parts: records features failures key_rates key_entries key_turns keys successes families inboxes
local inboxes = open_inboxes()
local is_there = inboxes.deliver(ARGV[2], {[ARGV[3]] = {ARGV[4], ARGV[5], ARGV[6]}}, nil, true)
return {is_there and 1 or 0, inboxes.woken}
