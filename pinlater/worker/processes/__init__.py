"""Job processes: one job after the other, or several at once."""
