"""Tasks that run beside the calls: expired claims, collection, and samples for the metrics."""
