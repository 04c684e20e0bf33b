"""How the acks of a call are read."""

from pinlater.protocol.messages import PinLaterJobAckInfo, PinLaterJobAckRequest
from pinlater.server.api.ack_rules import read_acks
from tests.support.counting import functions_called


def test_two_functions_are_called_for_an_ack():
    """One for the ack, and one for its descriptor: a drain acks many thousand a second."""

    def reading(count):
        acks = [PinLaterJobAckInfo(f"mail:s1:p1:{number}", "", 0, "host:1:2:worker:3") for number in range(count)]
        return functions_called(lambda: read_acks(PinLaterJobAckRequest("mail", acks), 1000))

    reading(1)  # remembers the beginning of the descriptors
    assert reading(110) - reading(10) <= 2 * 100
