"""Job processes, which run one job at a time or several."""
