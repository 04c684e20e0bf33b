"""Entry points of the programs that may be process 1 of a container: TERM ends them also while they are imported."""

from __future__ import annotations

from pinlater_supervisor.signals import end_on_term


def server() -> None:
    """Run ``pinlater-server``."""
    end_on_term()
    from pinlater.server.program import main

    main()


def worker() -> None:
    """Run ``pinlater-worker``."""
    end_on_term()
    from pinlater.worker.program import main

    main()
