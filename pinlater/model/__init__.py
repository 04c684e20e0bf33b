"""The records of the domain, each defined once: states, descriptors, jobs, claims, acks, checkpoints, reports."""
