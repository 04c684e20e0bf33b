"""The structs beside the IDL, and every struct there and back."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import thriftpy2
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.thrift import TType

from pinlater.errors import SERVICE_ERRORS, ServiceError, service_error
from pinlater.model.state import JobState
from pinlater.protocol import messages
from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import METHODS, STATE_NAMES, arguments_of, result_of
from tests.support.examples import examples

idl = thriftpy2.load(str(Path(messages.__file__).with_name("pinlater.thrift")), module_name="as_parsed_thrift")
STRUCTS = {
    name: kind
    for name, kind in vars(messages).items()
    if hasattr(kind, "thrift_spec") and kind.__module__ == messages.__name__
}
PYTHON_TYPES = {
    TType.BOOL: "bool",
    TType.BYTE: "int",
    TType.I32: "int",
    TType.I64: "int",
    TType.DOUBLE: "float",
    TType.STRING: "str",
    TType.BINARY: "bytes",
}
CONTAINERS = {TType.STRUCT, TType.LIST, TType.SET, TType.MAP}
ORIGINAL_METHODS = {
    "createQueue", "deleteQueue", "enqueueJobs", "dequeueJobs", "ackDequeuedJobs", "checkpointJobs", "lookupJobs",
    "getJobCount", "getQueueNames", "scanJobs", "retryFailedJobs", "deleteJobs",
}  # fmt: skip


def _python_type(wire_type, spec):
    """Return how a field's type is written for type checkers."""
    if wire_type == TType.STRUCT:
        return spec.__name__
    if wire_type == TType.LIST:
        return f"list[{_python_type(*spec) if isinstance(spec, tuple) else _python_type(spec, None)}]"
    if wire_type == TType.MAP:
        key, value = (item if isinstance(item, tuple) else (item, None) for item in spec)
        return f"dict[{_python_type(*key)}, {_python_type(*value)}]"
    return PYTHON_TYPES[wire_type]


def _fields(kind):
    """Return {name: type} of a struct class, None added where a field may be absent."""
    defaults = dict(kind.default_spec)
    fields = {}
    for wire_type, name, *spec, _ in kind.thrift_spec.values():
        text = _python_type(wire_type, spec[0] if spec else None)
        fields[name] = text if defaults[name] is not None else f"{text} | None"
    return fields


def _specification(kind):
    """Return {id: all that the codec reads of a field}; structs by name, enumerations as numbers."""
    defaults = dict(kind.default_spec)
    return {
        number: (_named(spec if spec[0] in CONTAINERS else (*spec[:2], spec[-1])), defaults[spec[1]])
        for number, spec in kind.thrift_spec.items()
    }


def _named(part):
    if isinstance(part, tuple):
        return tuple(map(_named, part))
    return part.__name__ if isinstance(part, type) else part


def test_the_structs_are_those_of_the_idl():
    of_the_idl = {name: kind for name, kind in vars(idl).items() if hasattr(kind, "thrift_spec")}
    assert of_the_idl.keys() == STRUCTS.keys()
    for name, kind in of_the_idl.items():
        assert _specification(STRUCTS[name]) == _specification(kind), name
        assert vars(STRUCTS[name]()) == vars(kind()), name
        assert issubclass(STRUCTS[name], Exception) == issubclass(kind, Exception)


def test_the_calls_are_those_of_the_idl():
    assert set(idl.PinLater.thrift_services) == METHODS
    for method in METHODS:
        for ours, theirs in ((arguments_of(method), "args"), (result_of(method), "result")):
            assert _specification(ours) == _specification(getattr(idl.PinLater, f"{method}_{theirs}")), method


@pytest.mark.parametrize("name", STRUCTS)
def test_type_checkers_see_the_fields_in_their_order(name):
    kind = STRUCTS[name]
    kind()  # the first one has the method compiled
    assert list(kind.__annotations__.items()) == list(_fields(kind).items())
    assert list(inspect.signature(kind).parameters) == list(_fields(kind))


def test_a_class_has_its_method_compiled_when_it_is_used():
    program = """
import linecache, pinlater.protocol.codec
from pinlater.protocol.messages import PinLaterJob
assert [name for name in linecache.cache if "generated" in name] == []
assert PinLaterJob(body=b"x", priority=2).priority == PinLaterJob(b"x", 2).priority == 2
assert [name for name in linecache.cache if "generated" in name] == ["<generated PinLaterJob.__init__>"]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_the_methods_of_the_original_are_there():
    assert ORIGINAL_METHODS < METHODS


def test_error_codes_and_states_are_those_of_the_idl():
    assert {code: kind.code_name for code, kind in SERVICE_ERRORS.items()} == idl.ErrorCode._VALUES_TO_NAMES
    assert {state.value: state.name for state in JobState} == STATE_NAMES


def test_our_additions_are_optional_and_have_high_ids():
    original = {
        "RequestContext": 2, "PinLaterJob": 5, "PinLaterEnqueueRequest": 2, "PinLaterEnqueueResponse": 1,
        "PinLaterJobAckInfo": 3, "PinLaterJobAckRequest": 3, "PinLaterDequeueRequest": 5, "PinLaterDequeueMetadata": 2,
        "PinLaterDequeueResponse": 2, "PinLaterCheckpointJobRequest": 6, "PinLaterCheckpointJobsRequest": 2,
        "PinLaterLookupJobRequest": 2, "PinLaterJobInfo": 10, "PinLaterGetJobCountRequest": 5,
        "PinLaterScanJobsRequest": 7, "PinLaterScanJobsResponse": 2, "PinLaterRetryFailedJobsRequest": 5,
        "PinLaterDeleteJobsRequest": 5, "PinLaterException": 2,
    }  # fmt: skip
    for name, highest in original.items():
        assert {number for number in STRUCTS[name].thrift_spec if number < 100} == set(range(1, highest + 1)), name
    for name, kind in STRUCTS.items():
        spec = kind.thrift_spec
        assert not [field[1] for number, field in spec.items() if number >= 100 and field[-1]], name


# There and back

texts = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = {
    TType.BOOL: st.booleans(),
    TType.BYTE: st.integers(-(2**7), 2**7 - 1),
    TType.I32: st.integers(-(2**31), 2**31 - 1),
    TType.I64: st.integers(-(2**63), 2**63 - 1),
    TType.DOUBLE: st.floats(allow_nan=False),
    TType.STRING: texts,
    TType.BINARY: st.binary(max_size=8),
}


def _values(wire_type, spec):
    if wire_type == TType.STRUCT:
        return structs(spec)
    if wire_type in {TType.LIST, TType.SET}:
        items = _values(*spec) if isinstance(spec, tuple) else _values(spec, None)
        return st.lists(items, max_size=3) if wire_type == TType.LIST else st.sets(items, max_size=3)
    if wire_type == TType.MAP:
        key, value = (item if isinstance(item, tuple) else (item, None) for item in spec)
        return st.dictionaries(_values(*key), _values(*value), max_size=3)
    return SCALARS[wire_type]


def structs(kind):
    """Return a strategy for instances of a struct class, with any of their fields absent."""
    fields = {
        field[1]: st.one_of(st.none(), _values(field[0], field[2] if len(field) == 4 else None))
        for field in kind.thrift_spec.values()
    }
    return st.builds(kind, **fields)


def _with_defaults(struct):
    """Return what a reader makes of a struct: absent fields take their defaults."""
    for name, default in type(struct).default_spec:
        value = getattr(struct, name)
        if value is None:
            setattr(struct, name, default)
        for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]:
            if hasattr(item, "thrift_spec"):
                _with_defaults(item)
    return struct


@pytest.mark.parametrize("method", sorted(METHODS))
def test_calls_come_back_as_they_were(method):
    codec = Codec()

    @examples(20)
    @given(structs(arguments_of(method)), st.integers(-(2**31), 2**31 - 1))
    def check(arguments, sequence_id):
        frame = codec.encode_call(method, sequence_id, arguments)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        call = codec.decode_call(frame[4:])
        assert (call.method, call.sequence_id) == (method, sequence_id)
        assert call.arguments == _with_defaults(arguments)

    check()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_replies_come_back_as_they_were(method):
    codec = Codec()
    success = result_of(method).thrift_spec.get(0)
    values = st.none() if success is None else _values(success[0], success[2] if len(success) == 4 else None)

    @examples(20)
    @given(values, st.integers(-(2**31), 2**31 - 1))
    def check(value, sequence_id):
        frame = codec.encode_reply(method, sequence_id, value)
        expected = value
        for item in value.values() if isinstance(value, dict) else [value]:
            if hasattr(item, "thrift_spec"):
                _with_defaults(item)
        found = codec.decode_reply(frame[4:], method, sequence_id)
        assert (set(found) if isinstance(value, set) else found) == expected  # thriftpy2 reads a set as a list

    check()


@pytest.mark.parametrize("code", [*SERVICE_ERRORS, 499, 599])
def test_declared_exceptions_come_back_as_their_class(code):
    codec = Codec()
    error = service_error(code, "what happened, and what to do")
    with pytest.raises(ServiceError) as caught:
        codec.decode_reply(codec.encode_service_error("createQueue", 7, error)[4:], "createQueue", 7)
    assert (type(caught.value), str(caught.value)) == (type(error), str(error))
