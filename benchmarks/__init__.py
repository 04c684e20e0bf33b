"""Benchmarks: ``make bench``, or ``python -m benchmarks [NAME...]``.

Real programs on this machine, with the durability they have by default. What a machine can do differs from machine to
machine, and on a shared one from minute to minute; so beside every figure stands what a bare ``sqlite3`` loop reaches
with the same rows, measured in turns with it.
"""
