-- Releases the lock with the token ARGV[2], unless it has expired.
if redis.call('GET', prefix .. 'lock') == ARGV[2] then
  redis.call('DEL', prefix .. 'lock')
end
return 1
