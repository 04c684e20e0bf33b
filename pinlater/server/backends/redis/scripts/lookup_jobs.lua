-- Reads jobs. ARGV[2]: MessagePack, a list of ids; [3] most bytes of each body, 0: no bodies; [4] "1": with results.
-- Returns {results, bodies, records, statuses, unique keys, shared keys, links, failure groups}, in the order of the
-- ids; false for what does not exist or was not requested.
-- parts: records members any_links families job_columns
local members, bodies = members_of(cmsgpack.unpack(ARGV[2])), false
if tonumber(ARGV[3]) > 0 then
  bodies = read_fields(prefix .. 'bodies', members)
  for at, body in ipairs(bodies) do
    bodies[at] = body and string.sub(body, 1, tonumber(ARGV[3]))
  end
end
return {ARGV[4] == '1' and read_fields(prefix .. 'results', members), bodies, read_jobs(members)}
