-- Takes the queue off the list of queues, even if it does not exist, since Redis may have evicted it.
redis.call('SREM', SHARD .. '}:queues', QUEUE)
