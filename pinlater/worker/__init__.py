"""The program ``pinlater-worker`` and its parts."""


def main() -> None:
    """Run ``pinlater-worker``; while it is imported, TERM ends it, even as process 1 of a container."""
    from pinlater_supervisor.signals import heed_while_starting

    heed_while_starting()
    from pinlater.worker.program import main as run

    run()
