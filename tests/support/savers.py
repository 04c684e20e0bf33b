"""What stands for the saver of a worker."""


class InBody:
    """Base of savers that keep all results of steps in the body."""

    keeps_messages = False

    def is_stored(self, message_id):
        return False
