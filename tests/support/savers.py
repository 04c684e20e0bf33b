"""What stands for the saver of a worker."""


class InBody:
    """Base of savers that keep all results of steps in the body."""

    keeps_messages = False
    patience_seconds = 30.0

    def save_briefly(self, batch, position, encode):
        return self.save(batch, position, encode)

    def is_stored(self, message_id):
        return False
