-- Ends the lock with the token ARGV[2], unless it has ended by itself.
if redis.call('GET', prefix .. 'lock') == ARGV[2] then
  redis.call('DEL', prefix .. 'lock')
end
return 1
