"""The network side of the server: listeners, connections, TLS and the budgets that bound them."""
