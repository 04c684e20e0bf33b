"""The run of one job: its context, its limits, its outcome."""
