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
