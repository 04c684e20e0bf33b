"""A ``PeerReceiver`` that remembers what it hears, and takes no job on offer."""


class Receiver:
    """What a process has heard from others.

    Attributes:
        heard: queues that have new jobs, and when they fall due.
        locations: where those are.
        gaps: how often notifications may have been missed.
        cancelled: running jobs that are asked to stop.
        polls: what others have found.
    """

    def __init__(self):
        self.heard = []
        self.locations = set()
        self.gaps = 0
        self.cancelled = []
        self.polls = []

    def on_remote_jobs(self, queue, due_ms, locations):
        self.heard.append((queue, due_ms))
        self.locations.update(locations)

    def on_gap(self):
        self.gaps += 1

    def on_cancelled(self, descriptors):
        self.cancelled += descriptors

    def on_poll(self, news):
        self.polls.append(news)

    def take_jobs(self, queue, _count, locations):
        self.on_remote_jobs(queue, None, locations)
        return 0

    def sees_to(self, _queue, _due_ms):
        return False
