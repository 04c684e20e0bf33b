-- Returns what jobs have of the keys that they share: limit, space, text, and NUL and rate if they have one.
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
