"""``pinlater outbox-table``, ``outbox-relay`` and ``outbox``: jobs in a table of the user's database."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from pinlater.cli.command import Session, command
from pinlater.cli.output import moment, print_fields, print_json, some_jobs, visible

if TYPE_CHECKING:
    from pinlater.outbox.table import RefusedRow, Waiting

_TABLE = "pinlater_outbox"
_MOST_REFUSED = 100
_MAKE_TABLE = "pinlater outbox-table"
_LINE = "%(asctime)s %(levelname)s %(process)d %(message)s"

_with_table = click.option("--table", default=_TABLE, show_default=True, metavar="NAME", help="Name of the table.")
_with_database = click.argument("database", metavar="URL", envvar="PINLATER_OUTBOX_DATABASE")


@command(
    "outbox-table",
    common=("as_json",),
    examples="""
    pinlater outbox-table postgresql | psql shop
    pinlater outbox-table mysql --table shop.outbox
    pinlater outbox-table sqlite | sqlite3 shop.db
    """,
)
@click.argument("database", type=click.Choice(["postgresql", "mysql", "sqlite"]))
@_with_table
def outbox_table(session: Session, /, *, database: str, table: str) -> None:
    """Print the SQL that creates the table of an outbox.

    Put it into a migration of your database. mysql is also for MariaDB.
    """
    from pinlater.outbox import Outbox

    sql = Outbox(table).create_table(database)
    if session.as_json:
        print_json({"sql": sql})
    else:
        click.echo(sql, nl=False)


@command(
    "outbox-relay",
    common=("servers", "tls_ca", "tls_cert", "tls_key", "as_json"),
    examples="""
    pinlater outbox-relay postgresql://shop@db.example.com/shop --server queue1.example.com:9010
    pinlater outbox-relay mysql://shop:secret@db.example.com/shop
    pinlater outbox-relay sqlite:////var/lib/shop/shop.db
    pinlater outbox-relay --burst sqlite:///shop.db
    """,
)
@_with_database
@_with_table
@click.option("--burst", is_flag=True, help="Exit when the outbox is empty.")
@click.option(
    "--no-notify",
    is_flag=True,
    help="Ask for jobs every 10 ms: for programs with Outbox(notify=False) (PostgreSQL), or to avoid SLEEP (MySQL).",
)
@click.option(
    "--log-format",
    type=click.Choice(["plain", "json"]),
    default="plain",
    help="Format of log lines on stderr.  [default: plain]",
)
def outbox_relay(
    session: Session, /, *, database: str, table: str, burst: bool, no_notify: bool, log_format: str
) -> None:
    """Deliver the jobs of an outbox.

    Programs store jobs in the table with their own commits. Until TERM or INT, the relay delivers each of these jobs to
    the servers once, and the jobs of a queue in order. If several relays use a table, one delivers, and the others wait
    until it ends. URL may also be in the environment as PINLATER_OUTBOX_DATABASE, where other users of the machine do
    not see its password. Drivers: psycopg or psycopg2, PyMySQL or mysqlclient.

    A job that the servers refuse stays in the table with the error, and is tried again every few minutes; see
    pinlater outbox.
    """
    from pinlater.outbox import Outbox, Relay
    from pinlater.outbox.relay_process import run
    from pinlater.outbox.sessions import reported_database_errors

    _set_up_logs(log_format)
    relay = Relay(Outbox(table, notify=not no_notify), database, session.server_set())
    with reported_database_errors(click.ClickException, _MAKE_TABLE):
        delivered = run(relay, until_empty=burst)
    if session.as_json:
        print_json({"delivered": delivered})
    else:
        click.echo(f"{some_jobs(delivered)} delivered")


def _set_up_logs(log_format: str) -> None:
    from pinlater.logs import JsonFormatter, UtcFormatter, configure_logging

    configure_logging("INFO", JsonFormatter() if log_format == "json" else UtcFormatter(_LINE))


@command(
    "outbox",
    common=("as_json",),
    examples="""
    pinlater outbox sqlite:///shop.db
    pinlater outbox postgresql://shop@db.example.com/shop --json
    """,
)
@_with_database
@_with_table
def outbox(session: Session, /, *, database: str, table: str) -> None:
    """Show what waits in an outbox, and what was refused.

    Prints how many jobs wait, since when the oldest job has waited, and the first 100 jobs that the servers have
    refused. The relay tries refused jobs again; to give one up, delete its row.
    """
    from pinlater.outbox.connecting import connector, open_database
    from pinlater.outbox.dialects import check_table
    from pinlater.outbox.sessions import reported_database_errors
    from pinlater.outbox.table import Table

    connect = connector(database)
    with reported_database_errors(click.ClickException, _MAKE_TABLE), closing(open_database(connect)) as opened:
        rows = Table(opened, check_table(table), batch_size=1)
        waiting, refused = rows.waiting(), rows.refused(_MOST_REFUSED)
    if session.as_json:
        print_json({**waiting._asdict(), "rows": refused})
    else:
        _print(waiting, refused)


def _print(waiting: Waiting, refused: list[RefusedRow]) -> None:
    print_fields(
        [
            ("waiting", some_jobs(waiting.jobs)),
            ("oldest", moment(waiting.oldest_ms)),
            ("refused", some_jobs(waiting.refused)),
        ]
    )
    from pinlater.triage.texts import times  # here: few calls come to this

    for row in refused:
        again = f"again at {moment(row.retry_at_ms)}" if row.retry_at_ms else "being tried again"
        click.echo(f"row {row.id} for queue {row.queue}, refused {times(row.refusals)}, {again}: {visible(row.error)}")
