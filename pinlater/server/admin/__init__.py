"""Metrics and health over HTTP."""

from pinlater.server.admin.endpoint import AdminEndpoint

__all__ = ["AdminEndpoint"]
