"""What the processes of one server have to do with each other: they share a private folder, and nothing else."""
