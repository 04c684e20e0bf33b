"""Rate limits and other limits of queues: read from files and from the store, enforced by token buckets."""
