"""The list of servers, with the address at which each listens for notifications from the others."""

from __future__ import annotations

from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.mysql.database import Database


async def meet(database: Database, me: Listener, keep_ms: int) -> list[Listener]:
    """Put this server into the list for ``keep_ms``, delete expired entries, and return the other servers."""
    bind, now = database.queries.bind, database.now_ms()
    store = bind(
        "store_listener",
        listener=me.id,
        host=me.host.encode(),
        port=me.port,
        secret=me.secret,
        expires_at=now + keep_ms,
    )
    _, (rows, _, _) = await database.execute(store, bind("listeners"))
    expired = [listener_id for listener_id, _, _, _, expires_at in rows if expires_at <= now]
    if expired:
        await database.execute(bind("delete_listeners", listeners=expired, now=now))
    return [
        Listener(listener_id, host.decode(), port, secret)
        for listener_id, host, port, secret, expires_at in rows
        if expires_at > now and listener_id != me.id
    ]
