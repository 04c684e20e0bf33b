-- Deletes messages for another shard that has received them. KEYS[1] is "outgoing", see inboxes.lua; ARGV[2] the name
-- of that shard, [3] on: ids of the messages.
-- standalone
local stream = KEYS[1] .. ':' .. ARGV[2]
redis.call('XDEL', stream, unpack(ARGV, 3))
if redis.call('XLEN', stream) == 0 then
  redis.call('DEL', stream, stream .. ':returned')
  redis.call('SREM', KEYS[1], ARGV[2])
end
