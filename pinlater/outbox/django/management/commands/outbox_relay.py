"""``manage.py outbox_relay``."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connections

from pinlater.outbox import Relay
from pinlater.outbox.django import outbox
from pinlater.outbox.relay_process import run


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Delivers jobs until it is stopped, with the database of the project."""

    help = "Deliver the jobs of the outbox to the PinLater servers of PINLATER_SERVERS, each once and in order."

    def add_arguments(self, parser: Any) -> None:
        """Declare the options."""
        parser.add_argument("--database", default="default", help="Alias of the database.")
        parser.add_argument("--burst", action="store_true", help="Exit when the outbox is empty.")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run a relay."""
        servers = getattr(settings, "PINLATER_SERVERS", None)
        relay = Relay(outbox(), connections[options["database"]], servers)
        self.stdout.write(f"{run(relay, until_empty=options['burst'])} jobs delivered")
