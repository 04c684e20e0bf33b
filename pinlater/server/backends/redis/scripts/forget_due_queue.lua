-- Removes a queue that does not exist from the due index: Redis has evicted it. KEYS[1] is the prefix of the due index,
-- see due_index.lua. ARGV[2] the name of the queue.
-- standalone
-- parts: queue_prefix
if not prefix_of(ARGV[2]) then
  for _, kind in ipairs({'claims', 'S', 'F', 'failures'}) do
    redis.call('ZREM', KEYS[1] .. ':' .. kind, ARGV[2])
  end
end
