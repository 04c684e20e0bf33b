-- Takes cancelled jobs off the children of their parents, see inboxes.lua. ARGV[2]: MessagePack, a list of {priority, id};
-- [3] "links".
-- parts: when_full records members features failures key_rates key_entries key_turns keys successes families inboxes links
local jobs = cmsgpack.unpack(ARGV[2])
local members = members_of(jobs, 2)
linked = open_links(members)
for at, member in ipairs(members) do
  linked.finish_cancellation(member, jobs[at][1])
end
linked.tell()
