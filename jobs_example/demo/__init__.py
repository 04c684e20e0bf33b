"""The demonstration behind ``make demo``: all examples at work, an accident on the way, and the proof after it."""
