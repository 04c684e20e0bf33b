-- Changes what holds a queue's jobs back. ARGV[2] "1" or "0": paused or not; [3] jobs a second; [4] jobs running at once:
-- each empty to leave it as it is, "0" to take it away.
for at, name in ipairs({'is_paused', 'jobs_per_second', 'max_running'}) do
  local wanted = ARGV[at + 1]
  if wanted ~= '' then
    if tonumber(wanted) == 0 then
      redis.call('HDEL', prefix .. 'settings', name)
    else
      redis.call('HSET', prefix .. 'settings', name, wanted)
    end
  end
end
return 1
