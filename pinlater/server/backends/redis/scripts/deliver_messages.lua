-- Stores messages to jobs that have not finished, and ends the sleeps that wait for them. KEYS[1] is a key of the shard.
-- ARGV[2] "1" if they are events, otherwise they tell how children have ended; [3] on, for each message: address of the
-- job, see inboxes.lua; name and id of the message, a digit for its kind, payload.
-- Returns {number of the jobs that there are; ended sleeps: see links.lua}.
-- standalone
-- parts: clock chunks no_queue records failures key_rates key_entries key_turns keys successes families inboxes
local inboxes, jobs, count = open_inboxes(), {}, 0
for at = 3, #ARGV, 5 do
  local address, name, id, kind, payload = unpack(ARGV, at, at + 4)
  jobs[address] = jobs[address] or {}
  local messages = jobs[address][name] or {}
  jobs[address][name] = messages
  local last = #messages
  messages[last + 1], messages[last + 2], messages[last + 3] = id, kind, payload
end
for address, messages in pairs(jobs) do
  count = count + (inboxes.deliver(address, messages, nil, ARGV[2] == '1') and 1 or 0)
end
return {count, inboxes.woken}
