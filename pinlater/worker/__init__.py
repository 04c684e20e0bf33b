"""The program ``pinlater-worker`` and its parts."""


def main() -> None:
    """Run ``pinlater-worker``; TERM ends it also while it is imported, even as process 1 of a container."""
    from pinlater_supervisor.signals import end_on_term

    end_on_term()
    from pinlater.worker.program import main as run

    run()
