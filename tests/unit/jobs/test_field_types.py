"""The types of fields: what JSON cannot carry is refused before there is a job."""

import dataclasses
import decimal
import numbers
import socket
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from pinlater.errors import ConfigError
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.field_types import check_fields
from pinlater.jobs.job import Job

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


@dataclasses.dataclass
class Other:
    y: int


class Tree(msgspec.Struct):
    name: str
    children: list["Tree"] = []


class Fine(Job):
    plain: str | int | float | bool | None
    lists: dict[str, list[tuple[int, ...]]]
    named: Colour
    when: datetime
    money: decimal.Decimal
    point: Point | None
    tree: Tree
    any: Any
    object: object
    number: numbers.Number
    mapping: Mapping[str, int]


def test_what_json_can_carry_is_fine():
    check_fields(Fine)
    assert JobCodec([Fine]).names == ["Fine"]


class Name(NamedTuple):
    first: str


class Size(TypedDict):
    wide: int


class Survives(Job):
    """Has a field of each type that the docstring of Job names."""

    text: str = "ä"
    number: float = 1.5
    nothing: bool | None = None
    day: date = date(2026, 3, 29)
    moment: datetime = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
    hour: time = time(2, 30)
    span: timedelta = timedelta(days=1, microseconds=5)
    money: decimal.Decimal = decimal.Decimal("1.10")
    id: UUID = UUID(int=7)
    colour: Colour = Colour.RED
    data: bytes = b"\xff\x00"
    pairs: dict[int, list[tuple[int, str]]] = msgspec.field(default_factory=lambda: {1: [(2, "b")]})
    unique: set[frozenset[int]] = msgspec.field(default_factory=lambda: {frozenset({1})})
    point: Point = msgspec.field(default_factory=lambda: Point(1))
    name: Name = Name("Ada")
    size: Size = msgspec.field(default_factory=lambda: {"wide": 3})
    tree: Tree = msgspec.field(default_factory=lambda: Tree("a", [Tree("b")]))


def test_what_the_docstring_names_arrives_as_it_was_sent():
    assert JobCodec([Survives]).decode("survives", encode_body(Survives())) == Survives()


def job_with(kind):
    class Wrong(Job):
        fine: int
        place: kind

    return Wrong


class Model:
    """Looks like a model of pydantic."""

    def model_validate(self): ...


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        (socket.socket, "text"),
        (type, "text"),
        (complex, "text"),
        (Path, r"str, and Path\(…\)"),
        (Path | None, "str"),
        (list[dict[str, Path]], "str"),
        (list[Model], r"a dict, made by model_dump\(mode='json'\) and read by model_validate"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_what_to_use(kind, instead):
    with pytest.raises(ConfigError, match=rf"Wrong: JSON cannot carry its field place, a [\w.]+; use {instead}"):
        JobCodec([Fine, job_with(kind)])


def test_a_dataclass_is_looked_into():
    holder = dataclasses.make_dataclass("Holder", [("socket", socket.socket)])
    with pytest.raises(ConfigError, match=r"its field place, a socket\.socket"):
        check_fields(job_with(holder))


def test_a_type_that_is_not_there_at_run_time():
    class Late(Job):
        part: "Fraction"

    with pytest.raises(ConfigError, match=r"Late: .*'Fraction' is not defined; import it at the top of the module"):
        JobCodec([Late])


def test_types_that_json_cannot_tell_apart():
    class Vague(Job):
        where: Point | Other

    with pytest.raises(ConfigError, match=r"Vague: the types of its fields cannot be read from JSON: .*more than one"):
        check_fields(Vague)
