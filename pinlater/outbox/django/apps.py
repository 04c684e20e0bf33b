"""The configuration of the Django app."""

from __future__ import annotations

from django.apps import AppConfig


class OutboxConfig(AppConfig):  # type: ignore[misc] # Django has no types
    """The app, whose migrations are recorded under ``pinlater_outbox``."""

    name = "pinlater.outbox.django"
    label = "pinlater_outbox"
    verbose_name = "PinLater outbox"
