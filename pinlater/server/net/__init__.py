"""Listeners, client connections, TLS, and the budgets that limit them."""
