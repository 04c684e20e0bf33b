"""Says what is wrong with queues, jobs, workers and the store, and what to do about it."""
