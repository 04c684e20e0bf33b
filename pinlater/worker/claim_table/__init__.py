"""What the processes of a worker show each other, in shared memory."""
