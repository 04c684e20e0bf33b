-- Takes cancelled jobs off the children of their parents, see inboxes.lua. ARGV[2]: MessagePack, a list of {priority, id};
-- [3] "links".
-- parts: when_full records features failures key_rates key_entries key_turns keys successes families inboxes links
local jobs, members = cmsgpack.unpack(ARGV[2]), {}
for at, job in ipairs(jobs) do
  members[at] = member_of(job[2])
end
linked = open_links(members)
for at, member in ipairs(members) do
  linked.finish_cancellation(member, jobs[at][1])
end
linked.tell()
