-- When the first job of each priority falls due, or did. ARGV[2] priority levels. Returns the time, and a text for each,
-- empty: none.
local due = {NOW}
for priority = 1, tonumber(ARGV[2]) do
  local found = redis.call('ZRANGE', prefix .. 'p' .. priority, 0, 0, 'WITHSCORES')
  due[#due + 1] = found[2] and string.format('%.0f', tonumber(found[2])) or ''
end
return due
