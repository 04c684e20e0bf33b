"""The types of fields: what JSON cannot carry is refused before there is a job."""

import dataclasses
import decimal
import numbers
import socket
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pinlater.errors import ConfigError
from pinlater.jobs.body_codec import JobCodec
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
