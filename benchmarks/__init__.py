"""Benchmarks: ``make bench``, or ``python -m benchmarks [NAME...]``.

They run the real programs on this machine, with their default durability. Speed differs from machine to machine, and on
a shared one from minute to minute. So each figure is shown beside that of a bare loop of the store's driver, such as
``sqlite3``, with the same rows, measured in turns with it.
"""
