"""Examination of a service: reads it, and finds what is wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Collection, Sequence

from pinlater.cli.command import Session
from pinlater.cli.metrics_page import AdminPort
from pinlater.cli.server_probes import servers_away
from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJobs
from pinlater.client.servers import ServerSet
from pinlater.errors import QueueNotFound
from pinlater.triage import store_rules
from pinlater.triage.collect import Collector
from pinlater.triage.findings import Finding
from pinlater.triage.readings import Readings, ServerReading
from pinlater.triage.rules import diagnose
from pinlater.triage.server_samples import ServerSample, server_reading
from pinlater.triage.thresholds import Thresholds, configured

BETWEEN_SAMPLES_SECONDS = 2.0
"""Wait between the first two samples of the metrics; the activity in between shows how the store is doing now."""

_COST_FACTOR = 10


class Examination:
    """Examines a service, once or again and again.

    Args:
        session: common options.
        client: client of the servers.
        servers: the set of servers that the client uses.
        queues: queues to check; empty for all.
        admin: address of a server's admin port; None for none.
    """

    def __init__(
        self, session: Session, client: AsyncVerbs, servers: ServerSet, queues: Sequence[str], admin: str | None
    ) -> None:
        self._client = client
        self._collector = Collector(client, periodic=self._periodic_jobs)
        self._periodic: tuple[float, PeriodicJobs] | None = None  # good until, monotonic seconds
        self._queues = queues
        self._servers, self._timeout = servers, session.timeout
        self._admin = None if admin is None else AdminPort(admin, session.timeout, session.tls_ca)
        self._has_read = False
        self._last: ServerSample | None = None
        self._thresholds: Thresholds | None = None  # the server's, also while its metrics cannot be read

    async def look(self) -> tuple[Readings, list[Finding]]:
        """Read the service; return the readings and what is wrong.

        Raises:
            PinLaterError: the server does not answer.
            QueueNotFound: there was no such queue at the first reading. One that is deleted later has no findings.
        """
        server, problem = await self._read_server()
        away = await servers_away(self._servers, self._timeout)
        readings = await self._collector.collect(self._queues, server)
        if not self._has_read and (missing := set(self._queues) - readings.settings.keys()):
            raise QueueNotFound(f"there is no queue {min(missing)!r}")
        self._has_read = True
        readings = dataclasses.replace(readings, servers_away=away)
        if problem:
            readings = dataclasses.replace(
                readings, not_told=[*readings.not_told, problem], unchecked=store_rules.OF_METRICS
            )
        if server is not None:
            self._thresholds = configured(server.thresholds)
        return readings, diagnose(readings, self._thresholds)

    async def _periodic_jobs(self, queues: Collection[str]) -> PeriodicJobs:
        """Return the periodic jobs, from a cache so that this slowest read takes at most a tenth of the time."""
        started = time.monotonic()
        if self._periodic is None or started >= self._periodic[0]:
            found = await self._client.periodic_jobs(queues)
            now = time.monotonic()
            self._periodic = now + _COST_FACTOR * (now - started), found
        return self._periodic[1]

    async def _read_server(self) -> tuple[ServerReading | None, str]:
        """Return the figures of the admin port, or None with the reason; that is empty if no port was given."""
        if self._admin is None:
            return None, ""
        try:
            if self._last is None:
                self._last = await self._admin.sample()
                await asyncio.sleep(BETWEEN_SAMPLES_SECONDS)
            first, self._last = self._last, await self._admin.sample()
        except (OSError, ValueError) as error:
            self._last = None
            return None, f"the server's metrics: {error}"
        return server_reading(first, self._last), ""
