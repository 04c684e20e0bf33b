"""Metrics of the server, and their text formats."""

from pinlater.server.metrics.catalog import Metrics
from pinlater.server.metrics.ostrich import render_ostrich
from pinlater.server.metrics.prometheus import render_prometheus

__all__ = ["Metrics", "render_ostrich", "render_prometheus"]
