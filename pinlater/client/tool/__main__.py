"""``python -m pinlater.client.tool``."""

from pinlater.client.tool.program import main

main()
