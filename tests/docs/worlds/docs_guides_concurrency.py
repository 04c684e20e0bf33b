"""What the guide of concurrency takes for granted."""

import contextvars

tenant = contextvars.ContextVar("tenant")
seen = []
