"""Encoding and decoding of job results: JSON, or for a ``RawJob`` the bytes as they are."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import cache, partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, TypeVar, overload

import msgspec

from pinlater.errors import ResultInvalid, ResultTooLarge
from pinlater.jobs.field_types import check_result_type
from pinlater.jobs.finite import NO_JSON, NULL, encode_finite
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.json_forms import decoder
from pinlater.jobs.result_type import has_typed_result, result_type
from pinlater.model.body_fields import DECODE_ERRORS

_T = TypeVar("_T")

log = logging.getLogger(__name__)


_WORK = CoroutineType, GeneratorType, AsyncGeneratorType
"""Types of values that may be work which was never run."""


def encode_result(job: Job, returned: object) -> bytes | None:
    """Return the result to store for what ``run`` of a job returned; None: there is none.

    A class that declares no result type stores none; if its jobs return something, a warning is logged once.

    Raises:
        ResultInvalid: the value does not fit the result type, or is a coroutine or generator that was never run.
        ResultTooLarge: it is larger than ``max_result`` of the class.
        ConfigError: the result type does not exist at run time, or cannot be read from JSON.
    """
    kind = type(job)
    if isinstance(returned, _WORK):
        _refuse_work_to_do(kind, returned)
    data = _result_writer(kind)(returned)
    if data is not None and len(data) > job.job_options.max_result:
        raise ResultTooLarge(
            f"{job.job_options.name} returned {len(data)} bytes, and its class allows {job.job_options.max_result}: "
            "keep large data elsewhere and return its name, or set max_result=… in the header of the class"
        )
    return data


@cache
def _result_writer(kind: type[Job]) -> Callable[[Any], bytes | None]:
    """Return the encoder for what jobs of a class return."""
    if issubclass(kind, RawJob):
        return partial(_raw_result, kind)
    if not has_typed_result(kind):
        return partial(_drop, kind)
    decode = _decoder(kind).decode

    def write(returned: Any) -> bytes | None:
        try:
            data = encode_finite(returned)
            decode(data)
        except NO_JSON as error:
            declared = getattr(result_type(kind), "__name__", result_type(kind))
            raise ResultInvalid(
                f"{kind.job_options.name} returned a value of type {type(returned).__name__} that does not fit "
                f"Job[{declared}]: {error}"
            ) from error
        return None if returned is None else data

    return write


def _raw_result(kind: type[Job], returned: Any) -> bytes | None:
    if isinstance(returned, bytes | bytearray | memoryview):
        return bytes(returned)
    if returned is not None:
        _warn_dropped(kind, returned, "return bytes from a RawJob")
    return None


def _drop(kind: type[Job], returned: Any) -> None:
    if returned is not None:
        name = type(returned).__name__
        _warn_dropped(kind, returned, f"say its type, class {kind.__name__}(Job[{name}]), and it is kept")


def _refuse_work_to_do(kind: type[Job], returned: object) -> None:
    """Raise ``ResultInvalid`` if the job returned a coroutine or generator that it should have run itself."""
    if isinstance(returned, CoroutineType) and inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
        returned.close()  # else Python warns of it, too
        what, hint = "a coroutine", "await it in run"
    elif isinstance(returned, GeneratorType | AsyncGeneratorType) and not _is_value(returned):
        what, hint = "a generator", "iterate over it in run"
    else:
        return
    raise ResultInvalid(f"{kind.job_options.name} returned {what}, of which nothing was run: {hint}")


def _is_value(generator: GeneratorType[Any, Any, Any] | AsyncGeneratorType[Any, Any]) -> bool:
    """Return whether a generator is a value: a generator expression, or one that has been started."""
    if isinstance(generator, AsyncGeneratorType):  # before Python 3.12, there is no way to see whether it has started
        return generator.ag_code.co_name == "<genexpr>"
    has_begun = inspect.getgeneratorstate(generator) != inspect.GEN_CREATED
    return has_begun or generator.gi_code.co_name == "<genexpr>"


@cache
def _decoder(kind: type[Job]) -> msgspec.json.Decoder[Any]:
    declared = result_type(kind)
    check_result_type(kind, declared)
    return decoder(declared)


_warned: set[type[Job]] = set()
"""Classes whose dropped return values were already warned about."""


def _warn_dropped(kind: type[Job], returned: object, hint: str) -> None:
    if kind not in _warned:
        _warned.add(kind)
        name = type(returned).__name__
        log.warning("what %s returns, a value of type %s, is dropped: %s", kind.job_options.name, name, hint)


def check_result(kind: type[Job]) -> None:
    """Check that results of a class can be read from JSON, if it declares any.

    Raises:
        ConfigError: they cannot; the message says what to do.
    """
    if has_typed_result(kind):
        _decoder(kind)


@overload
def decode_result(kind: type[Job[_T]], data: bytes | None) -> _T: ...


@overload
def decode_result(kind: None, data: bytes | None) -> Any: ...


def decode_result(kind: type[Job[Any]] | None, data: bytes | None) -> Any:
    """Return what a job has returned.

    Args:
        kind: its class; None: unknown, so the result is what JSON decodes to.
        data: the stored result; None: there is none.

    Raises:
        ResultInvalid: it does not fit the result type of the class.
        ConfigError: the result type does not exist at run time, or cannot be read from JSON.
    """
    try:
        return _result_reader(kind)(data)
    except DECODE_ERRORS as error:
        raise ResultInvalid(_why_unreadable(kind, data, error)) from error


@cache
def _result_reader(kind: type[Job[Any]] | None) -> Callable[[bytes | None], Any]:
    """Return the decoder for results of a class; cached, since a job that calls many others decodes one of each."""
    if kind is None or not has_typed_result(kind):
        decode_any = msgspec.json.decode
        is_raw = kind is not None and issubclass(kind, RawJob)
        return lambda data: data if data is None or is_raw else decode_any(data or NULL)
    decode = _decoder(kind).decode
    return lambda data: decode(data or NULL)


def _why_unreadable(kind: type[Job] | None, data: bytes | None, error: Exception) -> str:
    if kind is None:
        return f"the result is no JSON ({error}); name the class of the job, a RawJob perhaps"
    name = kind.job_options.name
    if data is None:
        return f"there is no result of this {name}: it was run by a worker whose class declared none, or runs again"
    return f"the result of a {name} does not fit its class: {error}"
