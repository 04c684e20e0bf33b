-- Ends the turn ARGV[2], unless it is over.
if redis.call('GET', prefix .. 'turn') == ARGV[2] then
  redis.call('DEL', prefix .. 'turn')
end
return 1
