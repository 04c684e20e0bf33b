"""The program ``pinlater-server`` and its parts."""


def main() -> None:
    """Run ``pinlater-server``; TERM ends it also while it is imported, even as process 1 of a container."""
    from pinlater_supervisor.signals import end_on_term

    end_on_term()
    from pinlater.server.program import main as run

    run()
