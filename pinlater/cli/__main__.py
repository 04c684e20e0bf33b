"""``python -m pinlater.cli``."""

from pinlater.cli.program import main

main()
