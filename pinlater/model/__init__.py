"""The records of the domain, each once: states, descriptors, jobs, claims, acks, checkpoints, settings, reports."""
