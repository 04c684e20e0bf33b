"""Structs and records that have the same fields in the same order."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from pinlater.errors import ProtocolError
from pinlater.protocol import messages
from pinlater.protocol.conversion.record_map import ANSWERED, RARE, Conversion, RecordMap


class Load(NamedTuple):
    queue: str
    target_ms: int
    slots: int = 0
    running: int = 0
    window_ms: int = 0
    runs: int = 0
    busy_ms: int = 0
    remark: str = "more than the struct has"


class Received(NamedTuple):
    number: int
    id: str
    payload: bytes
    kind: int = 0


@dataclass(frozen=True)
class Group:
    queue: str
    id: int
    name: str
    error: str = "none"
    numbers: tuple = field(default_factory=lambda: (1, 2))


LOAD = RecordMap(messages.PinLaterQueueLoad, Load)


def test_both_ways():
    load = Load("mail", 500, 1, 2, 3, 4, 5)
    struct = LOAD.struct(load)
    assert struct == messages.PinLaterQueueLoad("mail", 500, 1, 2, 3, 4, 5)
    assert LOAD.record(struct) == load
    assert LOAD.records_by_name({"a": struct}) == {"a": load}


def test_several_are_made_as_one_by_one():
    loads = [Load("mail", number, 1, 2, 3, 4, 5) for number in range(3)]
    structs = LOAD.structs(loads)
    assert structs == list(map(LOAD.struct, loads))
    assert LOAD.records(structs) == loads
    structs[1].jobsAtOnce = None
    assert LOAD.records(structs) == [loads[0], loads[1]._replace(slots=0), loads[2]]


def test_both_ways_in_another_order_and_with_a_part_of_the_fields():
    orders = [("number", "id", "payload", "kind"), ("number", "id", "payload")]
    for order, kind in zip(orders, (3, None), strict=True):
        received = RecordMap(messages.PinLaterMessage, Received, order=order)
        struct = messages.PinLaterMessage(1, "a", kind, b"x")
        assert received.struct(Received(1, "a", b"x", 3)) == struct
        assert received.record(struct) == Received(1, "a", b"x", kind or 0)


def test_what_a_struct_lacks_is_the_default_of_the_record():
    assert LOAD.record(messages.PinLaterQueueLoad("mail", 500)) == Load("mail", 500)


def test_a_field_without_a_default_is_empty_if_it_is_optional():
    groups = RecordMap(
        messages.PinLaterFailureGroup, Group, order=("queueName", "groupId", "className", "error", "givenUp")
    )
    assert groups.record(messages.PinLaterFailureGroup("mail", 7)) == Group("mail", 7, "", "none", (1, 2))


@pytest.mark.parametrize("struct", [None, messages.PinLaterQueueLoad("mail"), messages.PinLaterQueueLoad(None, 5)])
def test_what_has_to_be_there_is_missed(struct):
    with pytest.raises(ProtocolError):
        LOAD.record(struct)
    with pytest.raises(ProtocolError):
        LOAD.records(None)


def test_what_clients_leave_out_is_empty():
    lenient = RecordMap(messages.PinLaterQueueLoad, Load, is_strict=False)
    assert lenient.record(messages.PinLaterQueueLoad()) == Load("", 0)


def test_values_that_are_not_the_same_in_both_are_converted():
    conversions = {"queueName": Conversion(str.upper, str.lower), "jobsAtOnce": RARE, "jobsRunning": ANSWERED}
    loads = RecordMap(messages.PinLaterQueueLoad, Load, conversions)
    struct = loads.struct(Load("MAIL", 500, 0, 2))
    assert struct == messages.PinLaterQueueLoad("mail", 500, None, None, 0, 0, 0)
    assert loads.record(struct) == Load("MAIL", 500)


def test_another_order():
    loads = RecordMap(messages.PinLaterQueueLoad, Load, order=("queueName", "jobsEnded"))
    struct = loads.struct(Load("mail", 9))
    assert (struct.queueName, struct.jobsEnded, struct.latencyTargetMillis) == ("mail", 9, None)
    assert loads.record(struct) == Load("mail", 9)


def test_lists_of_structs_in_a_struct():
    load, struct = Load("mail", 500), LOAD.struct(Load("mail", 500))
    assert LOAD.several.write([load]) == LOAD.rare.write([load]) == [struct]
    assert (LOAD.several.read([struct]), LOAD.rare.read([struct])) == ([load], (load,))
    assert (LOAD.several.write(()), LOAD.rare.write(())) == ([], None)
    assert (LOAD.several.read(None), LOAD.rare.read(None)) == ([], ())
