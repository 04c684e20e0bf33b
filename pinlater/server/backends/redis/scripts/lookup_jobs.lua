-- Reads jobs. ARGV[2]: MessagePack, a list of ids; [3] most bytes of each body, 0: no bodies; [4] "1": with results.
-- Returns {records, statuses, unique keys, shared keys, links, failure groups, results, bodies}, in the order of the
-- ids; false for what does not exist or was not requested.
-- parts: records shared_keys any_links families read_links
local members, bodies = {}, false
for at, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  members[at] = member_of(id)
end
if tonumber(ARGV[3]) > 0 then
  bodies = read_fields(prefix .. 'bodies', members)
  for at, body in ipairs(bodies) do
    bodies[at] = body and string.sub(body, 1, tonumber(ARGV[3]))
  end
end
return {
  read_fields(JOBS, members), read_fields(prefix .. 'status', members), read_fields(prefix .. 'keys', members),
  read_shared_keys(members), read_links(members),
  read_fields(prefix .. 'failing', members),
  ARGV[4] == '1' and read_fields(prefix .. 'results', members), bodies
}
