"""A search that takes tenths of a second for each body: the automaton of its pattern has too many states to be kept."""

SLOW_PATTERN = "[ab]*a" + "[ab]{1000}" * 4 + "c"
SLOW_BODY = b"ab" * 10_000
