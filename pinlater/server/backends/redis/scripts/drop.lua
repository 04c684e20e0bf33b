-- A queue with all its jobs -> none. What has many members is freed by Redis in a thread of its own, so this takes no
-- longer for millions of jobs; descriptors of this life find nothing in the next one.
-- with earliest
local keys = {KEYS[1], JOBS, CLAIMS}
for _, name in ipairs({'bodies', 'status', 'unique', 'keys', 'settings', 'bucket', 'lock', 'S', 'F'}) do
  keys[#keys + 1] = prefix .. name
end
for priority = 1, 127 do
  for _, kind in ipairs({'p', 's', 'f'}) do
    keys[#keys + 1] = prefix .. kind .. priority
  end
end
redis.call('UNLINK', unpack(keys))
for _, kind in ipairs(KINDS_OF_UPKEEP) do
  redis.call('ZREM', SHARD .. '}:earliest:' .. kind, QUEUE)
end
return 1
