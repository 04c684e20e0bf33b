-- Finds in which states queues have jobs. KEYS[1] is the prefix of the shard's keys.
-- ARGV[2] priority levels; [3] on: names of queues.
-- Returns for each queue a list of states: 0 pending, 1 claimed, 2 succeeded, 3 failed; or false if it does not exist.
-- standalone
-- parts: queue_prefix
local levels = tonumber(ARGV[2])

local function keys_of(prefix, kinds)
  local keys = {}
  for kind in string.gmatch(kinds, '.') do
    for priority = 1, levels do
      keys[#keys + 1] = prefix .. kind .. priority
    end
  end
  return keys
end

-- A queue without jobs, like most queues, takes just one command.
local function states_of(prefix)
  local states, claims = {}, prefix .. 'claims'
  local all = keys_of(prefix, 'psf')
  if redis.call('EXISTS', claims, unpack(all)) == 0 then
    return states
  end
  for state, keys in pairs({[0] = keys_of(prefix, 'p'), {claims}, keys_of(prefix, 's'), keys_of(prefix, 'f')}) do
    if redis.call('EXISTS', unpack(keys)) > 0 then
      states[#states + 1] = state
    end
  end
  return states
end

local found = {}
for at = 3, #ARGV do
  local prefix = prefix_of(ARGV[at])
  found[#found + 1] = prefix and states_of(prefix)
end
return found
