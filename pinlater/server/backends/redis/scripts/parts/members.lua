-- Returns the members of jobs, given as a list of ids, or of tables that have the id at this place.
local function members_of(jobs, place)
  local members = {}
  for at, job in ipairs(jobs) do
    members[at] = member_of(place and job[place] or job)
  end
  return members
end
