"""The start of a job process: loading the user's code, which happens in no other process, and saying what is wrong."""

from __future__ import annotations

import logging
import sys

from pinlater_supervisor import Child

from pinlater import __version__
from pinlater.codec import JobCodec
from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError
from pinlater.worker.modules import load_job_classes, make_codec
from pinlater.worker.options import Options
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared
from pinlater.worker.solo import SoloProcess

BURST_PATIENCE_SECONDS = 5.0

log = logging.getLogger(__name__)


def run_job_process(child: Child, options: Options, pool: JobPool, shared: Shared) -> int:
    """Live as a job process of a pool; return the exit status."""
    try:
        codec = make_codec(load_job_classes(options.modules), options.queues)
        process = SoloProcess(child, options, pool, codec, shared)
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
        "pinlater-worker %s: %s at %s",
        __version__,
        "; ".join(pool.in_words(codec.queues) for pool in options.pools),
        ", ".join(map(str, options.servers.addresses())),
    )
