"""How large a regular expression becomes when it is compiled.

``regex`` writes out what has to occur a certain number of times: ``(?:(?:a{1000}){1000}){1000}`` are thirty characters
that fill any memory, in compiling, which neither ends at a deadline nor lets go of the interpreter lock. And recursion
takes memory for every level until there is none. So both are looked for before anything is compiled.
"""

from __future__ import annotations

import re

MAX_SIZE = 20_000
"""Characters of a pattern whose repetitions are written out: compiled within milliseconds."""

_COUNT = re.compile(r"(.?)\{\s*(\d+)", re.ASCII | re.DOTALL)
_RECURSION = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:R|[+-]?\d|&|P[>&])", re.ASCII)
_VERBOSE = re.compile(r"\(\?[A-Za-z0-9-]*x", re.ASCII)
_ENDS_OF_GROUPS = frozenset(")}*+? ")


def is_recursive(pattern: str) -> bool:
    """Whether a pattern may call itself, or a part of it."""
    return _RECURSION.search(pattern) is not None


def size_of(pattern: str) -> int:
    """Return a size that the compiled pattern does not exceed; rather too much than too little.

    A number behind a single character adds to the size; one behind a group multiplies it, whatever is in the group.
    """
    size, factor = len(pattern), 1
    is_verbose = _VERBOSE.search(pattern) is not None  # there, space and comments may stand before a number
    for before, digits in _COUNT.findall(pattern):
        count = max(int(digits[:12]), 1)
        if is_verbose or before in _ENDS_OF_GROUPS:
            factor *= count
        else:
            size += count
    return size * factor
