"""The program ``pinlater-server`` and its parts."""


def main() -> None:
    """Run ``pinlater-server``; while it is imported, TERM ends it, even as process 1 of a container."""
    from pinlater_supervisor.signals import heed_while_starting

    heed_while_starting()
    from pinlater.server.program import main as run

    run()
