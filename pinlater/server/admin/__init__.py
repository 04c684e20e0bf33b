"""The admin port: health checks, metrics and the dashboard over HTTP."""

from pinlater.server.admin.endpoint import AdminEndpoint

__all__ = ["AdminEndpoint"]
