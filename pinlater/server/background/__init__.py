"""Background tasks: expire claims, collect finished jobs, sample queues and shards for the metrics."""
