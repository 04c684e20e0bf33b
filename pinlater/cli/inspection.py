"""``pinlater lookup`` and ``scan``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.backoffs import policy_text
from pinlater.cli.command import WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.failures import failures_json, print_failures, status_line
from pinlater.cli.filters import REGEX, Filter, state_option, with_filter
from pinlater.cli.job_selection import JobSelection
from pinlater.cli.output import (
    body_text,
    duration,
    job_json,
    key_text,
    moment,
    print_bytes,
    print_fields,
    print_json,
    progress_text,
    published_text,
    result_text,
    state_text,
    visible,
)
from pinlater.cli.retrying import check_pending, need_retrying
from pinlater.cli.summaries import Summaries
from pinlater.cli.tables import Table
from pinlater.client.waits import call_text, due_ms, waits_text
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.model.body_summary import BodySummary
    from pinlater.model.jobs import JobInfo

_MOST_WITH_BODIES = 16
"""Up to this many jobs, bodies are read for progress and policy; the bodies of many jobs can be large."""

_PAGE_SIZE = 100

_HEADERS = (
    *("DESCRIPTOR", "CLASS", "ARGUMENTS", "STATE", "ATTEMPTS LEFT", "CREATED", "RUN AFTER", "UPDATED", "KEY", "STATUS"),
)
_OPTIONAL = ("CREATED", "KEY", "ATTEMPTS LEFT", "RUN AFTER", "UPDATED", "STATE", "STATUS")


@command(
    "lookup",
    common=WITH_TABLE,
    examples="""
    pinlater lookup email:s1:p1:42
    pinlater lookup email:s1:p1:42 email:s1:p1:43 --json
    pinlater lookup thumbnails:s1:p1:7 --raw > photo.jpg
    """,
)
@click.argument("descriptors", nargs=-1, required=True)
@click.option("--body", is_flag=True, help="Also show the bodies.")
@click.option("--raw", is_flag=True, help="Print only the bodies, byte for byte.")
def lookup(session: Session, /, *, descriptors: tuple[str, ...], body: bool, raw: bool) -> int:
    """Show jobs by descriptor.

    For a single job, it also shows each failed attempt. For up to 16 jobs, it also shows their progress, policy and
    result.

    A job that "waits for its key" is pending until other jobs with the same key have run. A job that waits for an event
    or a call sleeps until that comes, or until RUN AFTER.

    Exit status 1 if a job does not exist; ended jobs are removed after their retention time.
    """
    with_bodies = len(descriptors) <= _MOST_WITH_BODIES
    with session.client() as client:
        found = client.lookup(descriptors, include_body=body or raw or with_bodies, include_result=with_bodies)
        summaries = {} if raw or session.as_json else Summaries(client).of(found.values())
    each = dict.fromkeys(descriptors)
    infos = [found[descriptor] for descriptor in each if descriptor in found]
    _print_infos(session, infos, summaries, body=body, raw=raw)
    missing = [descriptor for descriptor in each if descriptor not in found]
    for descriptor in missing:
        click.echo(f"pinlater: there is no job {visible(descriptor)}", err=True)
    return 1 if missing else 0


def _print_infos(
    session: Session, infos: list[JobInfo], summaries: Mapping[str, BodySummary], *, body: bool, raw: bool
) -> None:
    if raw:
        print_bytes(b"".join(info.body or b"" for info in infos))
    elif session.as_json:
        for info in infos:
            print_json(job_json(info if body else info._replace(body=None)) | _metadata_json(info))
    elif len(infos) == 1:
        print_fields(_fields(infos[0], summaries[infos[0].descriptor], body=body))
        print_failures(infos[0])
    elif infos:
        _table(session).print([_row(info, summaries[info.descriptor]) for info in infos])


def _metadata_json(info: JobInfo) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = {} if info.progress is None else {"progress": msgspec.to_builtins(info.progress)}
    if info.published:
        found["published"] = info.published
    if info.policy is not None:
        found["policy"] = msgspec.to_builtins(info.policy)
    return {**found, "failed_attempts": failures_json(info)} if info.failed_attempts else found


def _fields(info: JobInfo, summary: BodySummary, *, body: bool) -> Iterable[tuple[str, str]]:
    yield "descriptor", info.descriptor
    if summary.job:
        yield "class", visible(summary.job)
    if summary.arguments:
        yield "arguments", visible(summary.arguments)
    yield "state", state_text(info)
    yield "attempts left", info.attempts_text
    yield "created", moment(info.created_at_ms)
    yield "run after", moment(due_ms(info))
    yield "updated", moment(info.updated_at_ms)
    if info.run_ms is not None:
        yield "run time", duration(info.run_ms / 1000)
    if info.key is not None:
        yield "key", key_text(info)
    if info.waits_for_key:
        yield "waits", "for its key: other jobs of the key run first"
    if info.waits_for:
        yield "waits", f"for {visible(waits_text(info.waits_for))}"
    if info.parent is not None:
        yield (
            "parent",
            f"{visible(info.parent.descriptor)}, job {info.parent.position + 1} of {visible(call_text(info.parent))}",
        )
    yield "claim", visible(info.claim or "-")
    if info.progress:
        yield "progress", progress_text(info.progress)
    if info.published:
        yield "published", published_text(info.published)
    if info.policy:
        yield "policy", policy_text(info.policy)
    yield "status", visible(info.remark.strip() or "-")
    if info.result is not None:
        yield "result", result_text(info.result)
    if body and info.body is not None:
        yield "body", body_text(info.body)


def _table(session: Session) -> Table:
    return Table(_HEADERS, width=session.table_width, whole=[0], optional=_OPTIONAL)


def _row(info: JobInfo, summary: BodySummary) -> list[str]:
    return [
        info.descriptor,
        visible(summary.job or "-"),
        visible(summary.arguments),
        state_text(info),
        info.attempts_text,
        moment(info.created_at_ms),
        moment(due_ms(info)),
        moment(info.updated_at_ms),
        visible("-" if info.key is None else info.key.text) + (" (waits)" if info.waits_for_key else ""),
        status_line(info),
    ]


@command(
    "scan",
    common=WITH_TABLE,
    examples="""
    pinlater scan email --state failed
    pinlater scan email --state pending --future --all --json
    pinlater scan email --retrying
    pinlater scan email --state failed --error SMTPException --newer-than 1h
    pinlater scan email --regex 'user_id": *42\\b'
    pinlater scan email --key customer-7
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@state_option(default="pending", help="State of the jobs.  [default: pending]")
@with_filter
@click.option("--future", is_flag=True, help="With --state pending: jobs that are not due yet, instead of due ones.")
@click.option("--retrying", is_flag=True, help="With --state pending: jobs whose last attempt failed, due or not.")
@REGEX
@click.option(
    "--key", help="Only pending or in-progress jobs with this key, shared or unique; found by the store's index."
)
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Maximum number of jobs.")
@click.option("--all", "everything", is_flag=True, help="Show all jobs.")
def scan(
    session: Session,
    /,
    *,
    queue: str,
    state: JobState,
    job_filter: Filter,
    future: bool,
    retrying: bool,
    regex: str | None,
    key: str | None,
    limit: int,
    everything: bool,
) -> None:
    """List the jobs of a queue in one state.

    Jobs due latest come first, each with its class and short arguments. With filters other than --priority and --regex,
    the tool reads and filters the jobs until it has found enough. With --regex, the server searches the bodies piece by
    piece, and what is found is shown at once.
    """
    check_pending(state, future=future, retrying=retrying)
    if key is not None:
        _check_key(state, has_others=bool(job_filter.priority or job_filter.group or future or retrying or regex))
    selection = JobSelection(queue, state, job_filter, future, regex, retrying or None, key)
    page_size = max(1, min(limit, _PAGE_SIZE)) if job_filter.is_for_server and not everything else _PAGE_SIZE
    with session.client() as client:
        if retrying:
            need_retrying(client, queue)
        pages = selection.pages(client, page_size)
        is_any = _print_scan(session, pages if everything else _first(pages, limit), Summaries(client))
    if not (is_any or session.as_json):
        click.echo(f"pinlater: {_nothing_found(selection)}", err=True)


def _check_key(state: JobState, *, has_others: bool) -> None:
    if state not in {JobState.PENDING, JobState.IN_PROGRESS} or has_others:
        raise click.UsageError(
            "--key needs --state pending, due or not, or in-progress; leave out --priority, --future, --retrying, "
            "--group and --regex."
        )


def _first(pages: Iterable[list[JobInfo]], limit: int) -> Iterator[list[JobInfo]]:
    """Yield pages until there are ``limit`` jobs."""
    for page in pages:
        yield page[:limit]
        limit -= len(page)
        if limit <= 0:
            return


def _print_scan(session: Session, pages: Iterable[list[JobInfo]], summaries: Summaries) -> bool:
    """Print jobs as they are found; return whether there was one."""
    table, is_any = _table(session), False
    for page in pages:
        is_any = is_any or bool(page)
        if session.as_json:
            for info in page:
                print_json(job_json(info))
        elif page:
            found = summaries.of(page)
            table.print([_row(info, found[info.descriptor]) for info in page])
    return is_any


def _nothing_found(selection: JobSelection) -> str:
    """Return what a scan says that has found no job, and where others may be."""
    is_due = selection.state is JobState.PENDING and not (selection.future or selection.retrying or selection.key)
    hint = "; for those that are due later, add --future; for those that run or have ended, --state" if is_due else ""
    return f"no such job in queue {selection.queue}{hint}"
