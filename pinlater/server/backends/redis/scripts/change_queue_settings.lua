-- Changes the settings of a queue. ARGV[2] "1" or "0": paused or not; [3] jobs per second; [4] most running jobs;
-- [5] shards; [6] shards by load. An empty value leaves the setting as it is, "0" removes it.
-- parts: when_full
for at, name in ipairs({'is_paused', 'jobs_per_second', 'max_running', 'shards', 'shards_by_load'}) do
  local wanted = ARGV[at + 1]
  if wanted ~= '' then
    if tonumber(wanted) == 0 then
      redis.call('HDEL', prefix .. 'settings', name)
    else
      redis.call('HSET', prefix .. 'settings', name, wanted)
    end
  end
end
redis.call('INCR', string.match(KEYS[1], '^[^{]*{[^:]*') .. '}:queues:changes') -- so that all servers read them again
return 1
