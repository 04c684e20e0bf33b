"""Job classes: a job is a typed record; its fields are its arguments, and are stored as its body.

The options of a class are in its header::

    class SendWelcomeEmail(Job, queue="email", attempts=5, backoff=Exponential(first=2, cap=600)):
        user_id: int

        def run(self, context: JobContext) -> None: ...
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, dataclass_transform

import msgspec

from pinlater.jobs.lazy_annotations import annotated_names, annotations_now
from pinlater.jobs.options import JobOptions
from pinlater.model.kept_mark import KEPT_MARK

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # that of the standard library accepts no default before Python 3.13

    from pinlater.jobs.context import JobContext

    Result_co = TypeVar("Result_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Result_co = TypeVar("Result_co", covariant=True)

_OPTION_NAMES = frozenset(JobOptions.__dataclass_fields__)
_IMPOSSIBLE = {
    "array_like": "a body is a JSON object, where steps and progress have their place",
    "forbid_unknown_fields": "steps and progress are kept beside the fields; leave it out",
    "tag": "it says which class a body is for; write name= instead",
    "tag_field": "a body has its class under job",
}
"""Options of msgspec that would leave bodies unreadable for workers, and why."""
_TAKEN = {
    "job": "names the class in the body",
    "run": "is the method that does the work",
    "job_options": "holds the options of the class",
}
"""Names that no field can have, and why."""
_STRUCT_OPTIONS = frozenset({*dir(msgspec.Struct.__struct_config__), "kw_only", "rename"})


def _default_queue(name: str) -> str:
    """``SendWelcomeEmail`` -> ``send_welcome_email``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class _JobType(msgspec.StructMeta):  # its instances are Job and all subclasses
    """Takes the job options out of the class header and leaves the rest to msgspec."""

    job_options: JobOptions

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **header: Any) -> Any:
        options = {key: header.pop(key) for key in list(header) if key in _OPTION_NAMES}
        is_root = not any(isinstance(base, _JobType) for base in bases)
        _refuse(name, [option for option in _IMPOSSIBLE if header.get(option)])
        if not is_root:
            wire_name = options.setdefault("name", name)
            header.setdefault("tag_field", "job")
            header.setdefault("tag", wire_name)
            header.setdefault("kw_only", True)
        _check_names(name, header)
        if not is_root:
            _check_fields(name, namespace)
        if "__init__" in namespace:
            raise TypeError(f"job class {name}: a job is a record; instead of __init__, write its fields: user_id: int")
        annotations = annotations_now(namespace)
        try:
            kind = super().__new__(mcls, name, bases, namespace, **header)
        except TypeError as error:
            raise TypeError(f"job class {name}: {error}") from None
        if annotations is not None:
            kind.__annotations__ = annotations
        if not is_root:
            _check_body(kind)
            _check_run(kind)
            kind.job_options = _options_of(getattr(kind, "job_options", None), options)
            _check_key(kind, kind.job_options.key)
            if kind.job_options.schedule is not None:
                _check_has_defaults(kind)
        return kind

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(cls, name: str) -> NoReturn:
            from pinlater.jobs.option_names import advise_method

            advice = advise_method(name, cls.__name__)
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{advice}", name=name, obj=cls)


def _check_names(kind_name: str, header: Mapping[str, Any]) -> None:
    """Check the remaining options of a class header.

    Raises:
        TypeError: an option is unknown, or the name is not text, is empty or ends in a reserved suffix.
    """
    job_name = header.get("tag", kind_name)
    if not (job_name and isinstance(job_name, str)):
        raise TypeError(f"job class {kind_name}: name={job_name!r} has to be a text, and not empty")
    if job_name.endswith(KEPT_MARK):
        raise TypeError(f"job class {kind_name}: its name cannot end in {KEPT_MARK}")
    for name in header.keys() - _STRUCT_OPTIONS:
        from pinlater.jobs.enqueue_options import EnqueueOptions  # which imports this module
        from pinlater.jobs.option_names import advise

        advice = advise(name, _OPTION_NAMES, EnqueueOptions.__annotations__, "client.enqueue(…)")
        raise TypeError(f"job class {kind_name}: {name} is no option; {advice}")


def _options_of(inherited: JobOptions | None, options: dict[str, Any]) -> JobOptions:
    """Return the options of a class: those in its header, then those that it inherits.

    The name is never inherited, and the queue only if a base class names one. Nor is the schedule: two classes with
    one schedule would do the work twice.
    """
    if inherited is None:
        return JobOptions(**{"queue": _default_queue(options["name"]), **options})
    if inherited.queue == _default_queue(inherited.name):
        options.setdefault("queue", _default_queue(options["name"]))
    return replace(inherited, **{"cron": None, "every": None, "timezone": "UTC", **options})


def _check_fields(kind_name: str, namespace: Mapping[str, Any]) -> None:
    """Check that everything a class body assigns is a field, a method or a constant.

    Raises:
        TypeError: a field has a reserved name, a value has no annotation and would be lost, or a default is a
            ``dataclasses.field``.
    """
    annotated = annotated_names(namespace)
    for name in _TAKEN.keys() & annotated:
        raise TypeError(f"job class {kind_name}: a field cannot be called {name}, which {_TAKEN[name]}")
    for name, value in namespace.items():
        if isinstance(value, dataclasses.Field):
            raise TypeError(
                f"job class {kind_name}: {name} has a default of dataclasses.field, which is for dataclasses; write "
                "msgspec.field(default_factory=...), or [], {} or set() alone, which each job gets a copy of"
            )
        is_plain = not (callable(value) or hasattr(type(value), "__get__") or isinstance(value, type))
        if is_plain and name not in annotated and not name.startswith("_") and not name.isupper():
            raise TypeError(
                f"job class {kind_name}: {name} has no annotation, so it is no field; write "
                f"{name}: {type(value).__name__} = {value!r:.60}, or {name}: ClassVar = … for what all jobs share"
            )


def _refuse(kind_name: str, options: Iterable[str]) -> None:
    """Raise ``TypeError`` for the first of some impossible options, if there are any."""
    for option in options:
        raise TypeError(f"job class {kind_name}: {option} is not possible: {_IMPOSSIBLE[option]}")


def _check_body(kind: Any) -> None:
    """Check that workers can read bodies of a class.

    Raises:
        TypeError: they cannot, because of an inherited option or the name of a field.
    """
    config = kind.__struct_config__
    _refuse(kind.__name__, [option for option in ("array_like", "forbid_unknown_fields") if getattr(config, option)])
    for name in kind.__struct_encode_fields__:
        if name.startswith("$"):
            raise TypeError(f"job class {kind.__name__}: a field cannot be {name!r} in the body; leave out the $")


def _check_run(kind: Any) -> None:
    """Check that ``run`` of a class can be called with a context.

    Raises:
        TypeError: it takes other arguments, or it is a generator function, of which a call runs nothing.
    """
    run = kind.run
    if not inspect.isfunction(run):
        return
    if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
        raise TypeError(f"job class {kind.__name__}: run is a generator, which no call runs; leave out yield")
    try:
        inspect.signature(run, follow_wrapped=False).bind("self", "context")
    except TypeError:
        raise TypeError(
            f"job class {kind.__name__}: run has to take self and context: def run(self, context)"
        ) from None


def _check_key(kind: Any, name: str | None) -> None:
    """Check that a class has the field or property that holds the key of its jobs.

    Raises:
        TypeError: it has none of this name.
    """
    if name is None or name in kind.__struct_fields__ or isinstance(getattr(kind, name, None), property):
        return
    near = get_close_matches(name, kind.__struct_fields__, 1)
    hint = f"did you mean {near[0]!r}?" if near else "it has to be the name of a field or a property"
    raise TypeError(f"job class {kind.__name__}: there is no field for key={name!r}; {hint}")


def _check_has_defaults(kind: Any) -> None:
    """Check that workers can create the job of a periodic class without arguments.

    Raises:
        TypeError: a field has no default, or the class is a ``RawJob``, whose body cannot hold a schedule.
    """
    if issubclass(kind, RawJob):
        raise TypeError(f"job {kind.__name__}: the body of a RawJob has no place for a schedule; use a Job")
    fields, defaults = kind.__struct_fields__, kind.__struct_defaults__
    padded = (msgspec.NODEFAULT,) * (len(fields) - len(defaults)) + defaults
    bare = [name for name, default in zip(fields, padded, strict=True) if default is msgspec.NODEFAULT]
    if bare:
        raise TypeError(
            f"job {kind.__name__}: it has a schedule, so workers make it without arguments; give a default to "
            + ", ".join(bare)
        )


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))  # for type checkers
class Job(msgspec.Struct, Generic[Result_co], kw_only=True, metaclass=_JobType):
    """Base class of all jobs.

    The fields of a subclass are the job's arguments. JSON must be able to carry their types: text, numbers, booleans,
    ``None``, dates, times, ``timedelta``, ``Decimal``, ``UUID``, enums, bytes, lists, tuples, sets, dicts, dataclasses,
    classes of attrs, ``NamedTuple``, ``TypedDict``, ``msgspec.Struct``, ``Path``, models of pydantic, and combinations
    of these. The values are checked when a job is enqueued, and again when a worker decodes it, which validates models
    anew. Options go into the class header, see ``JobOptions``.
    ``class Resize(Job[Size])`` declares that ``run`` returns a ``Size``, which is stored with the job for
    ``JobHandle.result`` and ``JobContext.call``.
    """

    job_options: ClassVar[JobOptions]

    def run(self, context: JobContext) -> Result_co | Coroutine[Any, Any, Result_co]:  # noqa: ARG002 - see below
        """Do the work; can be ``async def``.

        If it returns, the job has succeeded. The return value is stored if the class declares its type, unless the
        job runs again, as a periodic one does. If it raises an exception, the attempt has failed and, while attempts
        remain, the job runs again after the backoff of its class. ``Retry``, ``Discard`` and the options
        ``give_up_on`` and ``backoff_on`` change that.
        """
        raise TypeError(f"job class {type(self).__name__} does not define run(self, context)")


class RawJob(Job[bytes | None]):
    """Base class of jobs whose body is raw bytes, such as those of a program in another language.

    Nothing in such a body says which class it is for, so a queue has one ``RawJob`` class and no other class. If
    ``run`` returns bytes, they are stored as the result, unchanged.
    """

    body: bytes


def is_concrete(kind: object) -> bool:
    """Return whether ``kind`` is a job class with a ``run`` method, its own or an inherited one."""
    return isinstance(kind, type) and issubclass(kind, Job) and kind.run is not Job.run


def check_class(value: object) -> None:
    """Refuse what is no job class, such as a list of them.

    Raises:
        TypeError: it is none.
    """
    if not (isinstance(value, type) and issubclass(value, Job)):
        raise TypeError(f"{value!r:.80} is no job class; give classes that inherit from Job, one by one")


def not_a_job(value: object) -> TypeError:
    """Return the error for a value that is to be enqueued or called, but is no job."""
    if isinstance(value, type) and issubclass(value, Job):
        name = value.__name__
        return TypeError(f"{name} is a class of jobs; enqueue a job of it: {name}(...)")
    return TypeError(
        f"{value!r:.80} is no job, but of type {type(value).__name__}; enqueue takes an instance of a class that "
        "inherits from Job, and enqueue_many several"
    )
