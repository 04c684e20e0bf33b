"""``pinlater failing``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.missing_queues import refuse_missing
from pinlater.cli.output import group_json, moment, print_json, visible
from pinlater.cli.tables import Table
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.model.failure_groups import FailureGroup

_HEADERS = ("QUEUE", "JOB", "ERROR", "GIVEN UP", "RETRYING", "FIRST", "LAST", "GROUP")
_NUMBERS = (3, 4)
_OPTIONAL = ("FIRST", "GROUP")

_MOST_READ = 1000
"""Maximum number of groups to read to find those of a class."""


@command(
    "failing",
    common=WITH_TABLE,
    examples="""
    pinlater failing
    pinlater failing email --job SendWelcomeEmail
    pinlater failing --json
    pinlater retry-failed email --group 7141379058121730724
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option("--job", metavar="CLASS", help="Only failures of this class.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of groups.")
def failing(session: Session, /, *, queues: tuple[str, ...], job: str | None, limit: int) -> None:
    """Say how jobs fail: by class and error, most jobs first.

    Without QUEUES, it shows all queues. GIVEN UP is the number of failed jobs, RETRYING the number of jobs that wait
    for another attempt. Both are counted up to 10,000 on each shard. FIRST and LAST tell when the error was first and
    last seen. In ERROR, # stands for parts that vary. To list or change the jobs of one GROUP, use --group of scan,
    retry-failed, delete-jobs, move-jobs or cancel-jobs. If a shard of the store does not answer, a message and the exit
    status 69 say that its jobs are left out.
    """
    with session.client() as client:
        refuse_missing(client, queues)
        found = client.failure_groups(queues, limit=_MOST_READ if job else limit)
        for queue in sorted(queues or client.queue_names())[:1]:
            client.count(queue, JobState.IN_PROGRESS)  # says which shards do not answer; the groups do not
    groups = [group for group in found if job in {None, group.job}][:limit]
    if session.as_json:
        print_json([_json(group) for group in groups])
    elif groups:
        table = Table(_HEADERS, _NUMBERS, whole=(7,), width=session.table_width, optional=_OPTIONAL)
        table.print([_row(group) for group in groups])
    else:
        click.echo("no job has failed, or all were retried or deleted", err=True)


def _json(group: FailureGroup) -> dict[str, object]:
    fields = group._asdict()
    return {"group": group_json(fields.pop("id")), **fields}


def _row(group: FailureGroup) -> list[str]:
    return [
        group.queue,
        visible(group.job) or "-",
        visible(group.error),
        str(group.given_up),
        str(group.retrying),
        moment(group.first_ms),
        moment(group.last_ms),
        str(group.id),
    ]
