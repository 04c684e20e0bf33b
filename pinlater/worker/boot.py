"""The start of a job process: loading the user's code, which happens in no other process, and saying what is wrong."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field

from pinlater_supervisor import Child

from pinlater import __version__
from pinlater.codec import JobCodec
from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError
from pinlater.worker.board import Board
from pinlater.worker.modules import load_job_classes, make_codec
from pinlater.worker.notices import Notices
from pinlater.worker.once import Once
from pinlater.worker.options import Options
from pinlater.worker.process import JobProcess

BURST_PATIENCE_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all processes of a worker have in common; made by the master before it forks.

    Attributes:
        board: what each job process holds.
        notices: deaths that the keeper has not handled.
        complaint: for the one process that says why none can start.
        banner: for the one that says what this worker does.
    """

    board: Board
    notices: Notices
    complaint: Once = field(default_factory=Once)
    banner: Once = field(default_factory=Once)

    @classmethod
    def for_processes(cls, processes: int) -> Shared:
        """Make room for that many job processes, for a second generation beside them, and for some more."""
        places = 4 * processes + 64
        return cls(Board(places), Notices(places))

    def renew(self) -> None:
        """Let a new generation of processes speak."""
        self.complaint.renew()
        self.banner.renew()


def run_job_process(child: Child, options: Options, shared: Shared) -> int:
    """Live as a job process; return the exit status."""
    try:
        codec = make_codec(load_job_classes(options.modules), options.queues)
        process = JobProcess(child, options, codec, shared.board, shared.notices)
    except ConfigError as error:
        _complain(shared, str(error))
        return EXIT_CONFIG
    if options.burst and not process.reach_server(BURST_PATIENCE_SECONDS):
        if child.draining:
            return 0
        addresses = ", ".join(map(str, options.servers.addresses()))
        _complain(
            shared,
            f"cannot reach {addresses}; is pinlater-server running? choose another with --server or PINLATER_SERVERS",
        )
        return EXIT_UNAVAILABLE
    child.ready()
    if shared.banner.take():
        _say_hello(options, codec)
    process.work()
    return 0


def _complain(shared: Shared, text: str) -> None:
    if shared.complaint.take():
        sys.stderr.write("".join(f"pinlater-worker: {line}\n" for line in text.splitlines()))


def _say_hello(options: Options, codec: JobCodec) -> None:
    log.info(
        "pinlater-worker %s: %d process%s for queue %s at %s",
        __version__,
        options.processes,
        "" if options.processes == 1 else "es",
        ", ".join(options.queues or codec.queues),
        ", ".join(map(str, options.servers.addresses())),
    )
