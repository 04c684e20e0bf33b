-- Finds when the oldest due job of each priority fell due. ARGV[2] first and [3] last priority.
local due = {}
for priority = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  local found = redis.call('ZRANGEBYSCORE', prefix .. 'p' .. priority, '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, 1)
  if found[2] then
    due[#due + 1] = string.format('%.0f', tonumber(found[2]))
  end
end
return due
