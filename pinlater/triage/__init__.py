"""Diagnosis of queues, jobs, workers and the store: what is wrong, and what to do about it."""
