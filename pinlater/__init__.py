"""PinLater: an asynchronous job system."""

__version__ = "0.1.0"
