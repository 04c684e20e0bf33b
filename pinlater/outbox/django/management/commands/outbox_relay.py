"""``manage.py outbox_relay``."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from pinlater.errors import ConfigError
from pinlater.outbox import Relay
from pinlater.outbox.django import outbox
from pinlater.outbox.relay_process import run
from pinlater.outbox.sessions import reported_database_errors


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Delivers jobs from the database of the project until it is stopped."""

    help = "Deliver the jobs of the outbox to the PinLater servers of PINLATER_SERVERS, each once and in order."

    def add_arguments(self, parser: Any) -> None:
        """Declare the options."""
        parser.add_argument("--database", default="default", choices=tuple(connections), help="Alias of the database.")
        parser.add_argument("--burst", action="store_true", help="Exit when the outbox is empty.")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run a relay."""
        # A test's server is in the environment; its jobs must not go to the servers of the settings.
        servers = os.environ.get("PINLATER_SERVERS") or getattr(settings, "PINLATER_SERVERS", None)
        try:
            with reported_database_errors(CommandError, "manage.py migrate"):
                relay = Relay(outbox(), connections[options["database"]], servers)
                delivered = run(relay, until_empty=options["burst"])
        except ConfigError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{delivered} {'job' if delivered == 1 else 'jobs'} delivered")
