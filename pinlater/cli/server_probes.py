"""Probes of servers: which of several do not answer, although a client gets its answers from the others."""

from __future__ import annotations

import asyncio

from pinlater.cli.command import PATIENCE_SECONDS
from pinlater.client.address import Address
from pinlater.client.async_client import AsyncClient
from pinlater.client.servers import ServerSet
from pinlater.client.store_time import NO_CANCELLATION_MS
from pinlater.client.tls import TlsFiles
from pinlater.errors import PinLaterError, ProtocolError


async def servers_away(servers: ServerSet, call_timeout: float) -> dict[str, PinLaterError]:
    """Ask each of several servers for its time, all at once; return those that do not tell it, and why.

    Args:
        servers: the servers; a single one is not asked. Their clients will try those that are away last.
        call_timeout: seconds until a call fails.
    """
    addresses = list(servers.addresses())
    if len(addresses) == 1:
        return {}
    errors = await asyncio.gather(*(_error_of(address, servers.tls, call_timeout) for address in addresses))
    away = {address: error for address, error in zip(addresses, errors, strict=True) if error is not None}
    for address in away:
        servers.leave(address)
    return {str(address): error for address, error in away.items()}


async def _error_of(address: Address, tls: TlsFiles, call_timeout: float) -> PinLaterError | None:
    only = ServerSet([address], tls=TlsFiles() if address.kind == "tcp" else tls)
    try:
        async with AsyncClient(only, timeout=call_timeout, patience=PATIENCE_SECONDS, connections=1) as client:
            await client.cancelled_jobs(NO_CANCELLATION_MS)
    except ProtocolError:  # an earlier version does not know the call
        return None
    except PinLaterError as error:
        return error
    return None
