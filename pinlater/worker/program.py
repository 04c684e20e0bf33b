"""The ``pinlater-worker`` program: reads and checks its options, then starts the master."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pinlater import __version__
from pinlater.durations import DURATION, Duration, parse_duration
from pinlater.environment import unread_variables
from pinlater.errors import ConfigError
from pinlater.worker.sizes import size

if TYPE_CHECKING:
    from pinlater.client.servers import ServerSet
    from pinlater.worker.options import WorkerOptions

_EXAMPLES = """\b
Examples:
  pinlater-worker my_jobs                            serve all queues of the job classes in my_jobs, on a local server
  pinlater-worker my_jobs mail/jobs.py --processes 4 --queue email --queue reindex
  pinlater-worker my_jobs --queue email:3,sms=4 --queue reports=1
                                                     4 processes for email (first) and sms, 1 for reports
  pinlater-worker my_jobs --threads 16               16 jobs at once in each process, for jobs that mostly wait
  pinlater-worker my_jobs --server queue1.example.com:9010,queue2.example.com:9010
  pinlater-worker my_jobs --reload                   restart after each edit, for development
  pinlater-worker my_jobs --debug                    use breakpoint() at a terminal
  pinlater-worker my_jobs --burst                    run all jobs that are due, then exit
  pinlater-worker my_jobs --check                    see whether a worker can load them, before a deployment
  pinlater-worker install-units --help               run server and workers under systemd

Signals: TERM finishes or interrupts the running jobs and ends; INT stops at once; HUP reloads the code; USR2 writes
the stacks of the running jobs to stderr; TTIN and TTOU add and remove a process of the first pool.

\b
Exit status: 0 stopped, 2 usage error, 69 server unavailable (--burst) or address missing, 78 configuration error.
"""

_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """Run the worker, or ``install-units``, which cannot be a module's name because of its dash."""
    if sys.argv[1:2] == ["install-units"]:
        from pinlater.worker.install_units import command

        command(sys.argv[2:], "pinlater-worker install-units")
    worker(prog_name="pinlater-worker")


@click.command(
    "pinlater-worker",
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="[tls://]HOST:PORT",
    help="Server to get jobs from, or unix:/path. May be repeated or separated by commas; each is a fallback for the "
    "others.  [env: PINLATER_SERVERS; default: 127.0.0.1:9010]",
)
@click.option(
    "--tls-ca", metavar="FILE", help="PEM file of the CA certificates for tls:// servers.  [env: PINLATER_TLS_CA]"
)
@click.option("--tls-cert", metavar="FILE", help="PEM file of the client certificate.  [env: PINLATER_TLS_CERT]")
@click.option(
    "--tls-key",
    metavar="FILE",
    help="PEM file of the client key.  [env: PINLATER_TLS_KEY; default: the --tls-cert file]",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=_processors,
    metavar="N",
    help="Number of processes; each runs one job at a time unless --threads or --concurrency is given.  "
    "[default: number of CPUs]",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Jobs to run at once in each process, in threads; for jobs that mostly wait in blocking calls.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10000),
    metavar="N",
    help="Jobs to run at once in each process, on one event loop; for async def jobs.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[:WEIGHT][,...][=N]",
    help="Queue to serve; may be repeated. Queues with a greater WEIGHT (1 to 100) are polled first more often. "
    "With =N, the queues get N processes of their own.  [default: all]",
)
@click.option(
    "--burst",
    is_flag=True,
    help="Exit when the queues are empty and all retries of this run are done; a paused queue with jobs is not empty.",
)
@click.option(
    "--lease",
    "lease_seconds",
    type=Duration(1, 86400),
    default=30.0,
    metavar=DURATION,
    help="If the whole worker dies, other workers get its jobs after this time. Leases are renewed, so long jobs do "
    "not need a longer one.  [default: 30s]",
)
@click.option(
    "--drain",
    "drain_seconds",
    type=Duration(0, 86400),
    default=30.0,
    metavar=DURATION,
    help="Time for running jobs to finish when the worker is told to stop.  [default: 30s]",
)
@click.option(
    "--max-jobs", type=click.IntRange(1), metavar="N", help="Replace a process after N jobs.  [default: never]"
)
@click.option(
    "--max-age",
    "max_age_seconds",
    type=Duration(1),
    metavar=DURATION,
    help="Replace a process of this age, between jobs.  [default: never]",
)
@click.option(
    "--max-memory",
    "max_rss_bytes",
    type=size,
    metavar="SIZE",
    help="Replace a process that uses more than SIZE of memory, such as 300M or 2G, between jobs.  [default: never]",
)
@click.option(
    "--memory-ceiling",
    "rss_ceiling_bytes",
    type=size,
    metavar="SIZE",
    help="Kill a process that uses more than SIZE of memory; its running job fails.  [default: none]",
)
@click.option(
    "--health",
    envvar="PINLATER_WORKER_HEALTH",
    default="",
    metavar="[HOST:]PORT",
    help="Serve health checks (/livez, /readyz) and /metrics over HTTP, on 127.0.0.1 unless HOST is given; 0 picks a "
    "free port, which the log names.  [env: PINLATER_WORKER_HEALTH; default: off]",
)
@click.option("--reload", is_flag=True, help="For development: reload the modules whenever one is edited.")
@click.option(
    "--debug",
    is_flag=True,
    help="For development: run one process, in which breakpoint() and pdb work; jobs have no time limits and keep "
    "their claims meanwhile.",
)
@click.option(
    "--middleware",
    multiple=True,
    metavar="MODULE:NAME",
    help="Middleware around each run of a job, see pinlater.Middleware; may be repeated, the first is the outermost.",
)
@click.option(
    "--unknown-after",
    "unknown_seconds",
    type=parse_duration,
    default="3d",
    metavar=DURATION,
    help="How long a job that no worker can run goes back to its queue before it fails, such as 12h or 7d; 0: it fails "
    "at once. Workers cannot run a job if its class is unknown, or if its body or its recorded steps do not fit the "
    "code. Until it fails, no attempt is spent.  [default: 3d]",
)
@click.option(
    "--on-start",
    multiple=True,
    metavar="MODULE:NAME",
    help="Function that each process calls before its first job, such as one that opens a connection pool; may be "
    "repeated. If it fails, the process exits and is restarted with a growing delay.",
)
@click.option(
    "--on-stop",
    multiple=True,
    metavar="MODULE:NAME",
    help="Function that each process calls after its last job, within 5 seconds; may be repeated.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Load the modules, the middleware and the hooks, check them, and exit; no server is needed.",
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS, case_sensitive=False), default="INFO", help="Minimum level of log lines."
)
@click.option(
    "--log-format",
    type=click.Choice(["plain", "json"]),
    default="plain",
    help="Format of log lines; json writes one object per line, with the running job.  [default: plain]",
)
@click.version_option(__version__, prog_name="pinlater-worker")
def worker(  # noqa: PLR0917 - click calls it
    modules: tuple[str, ...],
    servers: tuple[str, ...],
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    processes: int,
    queues: tuple[str, ...],
    check: bool,
    log_level: str,
    log_format: str,
    **options: Any,  # those of ``WorkerOptions``, by the same names
) -> None:
    """Run the jobs of PinLater queues.

    MODULE is a module or package with job classes, such as my_project.jobs, found from the current directory; or
    the path of a .py file. All modules of a package are loaded.
    """
    _refuse_contradictions(click.get_current_context())
    from pinlater_supervisor import signals  # not for --help

    signals.heed_while_starting()
    from pinlater.worker.options import WorkerOptions
    from pinlater.worker.pools import parse_pools

    try:
        server_set = _server_set(servers, tls_ca, tls_cert, tls_key)
        pools = parse_pools(queues, 1 if options["debug"] else processes)
        worker_options = WorkerOptions(modules=modules, servers=server_set, pools=pools, **options)
        status = _run(worker_options, log_level.upper(), log_format, only_check=check)
    except ConfigError as error:
        from pinlater.logs import report_startup_error

        report_startup_error("pinlater-worker", str(error), as_json=log_format == "json")
        status = error.exit_status
    sys.exit(status)


def _run(options: WorkerOptions, log_level: str, log_format: str, *, only_check: bool) -> int:
    from pinlater.worker import logs
    from pinlater.worker.master import run_worker
    from pinlater.worker.reloader import refuse_without_watchfiles
    from pinlater.worker.terminal import refuse_without_terminal

    logs.set_up_logs(log_level, log_format)
    if only_check:
        from pinlater.worker.boot import check_jobs

        click.echo(check_jobs(options))
        return 0
    if options.debug:
        refuse_without_terminal()
    if options.reload:
        refuse_without_watchfiles()
    if unread := unread_variables(os.environ):
        logging.getLogger("pinlater.worker").warning("%s", unread)
    return run_worker(options)


def _refuse_contradictions(context: click.Context) -> None:
    """Reject options that contradict each other.

    Raises:
        click.UsageError: names the options.
    """
    chosen = context.params
    restarts = {"--max-jobs": "max_jobs", "--max-age": "max_age_seconds", "--max-memory": "max_rss_bytes"}
    for option, name in (restarts | {"--reload": "reload"}).items():
        if chosen["burst"] and chosen[name]:
            raise click.UsageError(
                f"{option} has no effect with --burst, whose processes exit by themselves; leave it out."
            )
    if chosen["threads"] and chosen["concurrency"]:
        raise click.UsageError("--threads and --concurrency exclude each other; choose one.")
    if 0 < (chosen["rss_ceiling_bytes"] or 0) <= (chosen["max_rss_bytes"] or 0):
        raise click.UsageError("--memory-ceiling must be above --max-memory, which could never be reached otherwise.")
    if chosen["debug"] and (
        chosen["threads"] or chosen["concurrency"] or any("=" in queue for queue in chosen["queues"])
    ):
        raise click.UsageError(
            "--debug runs one job at a time in one process; leave out --threads, --concurrency and =N."
        )
    is_default = context.get_parameter_source("processes") is ParameterSource.DEFAULT
    if chosen["queues"] and all("=" in queue for queue in chosen["queues"]) and not is_default:
        raise click.UsageError("--processes has no effect: every --queue has processes of its own; leave it out.")


def _server_set(servers: tuple[str, ...], ca: str | None, cert: str | None, key: str | None) -> ServerSet:
    """Return the servers; check addresses and TLS files once, not in every process.

    Raises:
        ConfigError: an address or file is wrong; says what to write instead.
    """
    from pinlater.client.servers import ServerSet
    from pinlater.client.tls import TlsFiles

    found = ServerSet.of(",".join(servers) or None, TlsFiles.from_environment(ca=ca, cert=cert, key=key))
    if any(address.is_tls for address in found.addresses()):
        found.tls.context()
    return found


if __name__ == "__main__":
    main()
