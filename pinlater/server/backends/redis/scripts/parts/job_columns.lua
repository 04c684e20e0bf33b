-- Returns the shared keys of jobs, each as limit, space, text, and if it has a rate, NUL and rate; false without a key.
local function read_shared_keys(members)
  local found, keyed, places = read_fields(prefix .. 'job_keys', members), {}, {}
  for at, value in ipairs(found) do
    if value then
      keyed[#keyed + 1], places[#places + 1] = members[at], at
    end
  end
  for at, rate in ipairs(read_fields(prefix .. 'job_rates', keyed)) do
    if rate then
      found[places[at]] = found[places[at]] .. '\0' .. rate
    end
  end
  return found
end

-- Returns what ties jobs to others, as the hash "links" has it, with their parents added; see links.lua.
local function read_links(members)
  local found, family_of = read_fields(prefix .. 'links', members), HAS_LINKS and open_families(prefix)
  for at, member in ipairs(family_of and members or {}) do
    local family, id = family_of(member)
    if family then
      local link = found[at] and cmsgpack.unpack(found[at]) or {}
      link.p = family.address .. ' ' .. position_in(family, id) .. ' ' .. family.name
      found[at] = cmsgpack.pack(link)
    end
  end
  return found
end

-- Returns the records (unless they are given), statuses, unique keys, shared keys, links and failure groups of jobs, each
-- as a list with false for what does not exist.
local function read_jobs(members, lines)
  return lines or read_fields(JOBS, members), read_fields(prefix .. 'status', members),
    read_fields(prefix .. 'keys', members), read_shared_keys(members), read_links(members),
    read_fields(prefix .. 'failing', members)
end
