"""The types of fields: what JSON cannot carry is refused before there is a job."""

import dataclasses
import decimal
import numbers
import socket
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from pinlater.errors import BodyInvalid, ConfigError
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.body_schemas import job_class
from pinlater.jobs.field_types import check_fields
from pinlater.jobs.job import Job
from pinlater.testing import FakeContext, killed_everywhere, run_inline

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


class Order(pydantic.BaseModel):
    """What a form of a web page has sent: its names differ from ours, and nothing is converted to fit."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    number: int = pydantic.Field(alias="orderNumber", gt=0)
    at: datetime
    money: decimal.Decimal
    weight: float | None = None
    labels: set[str] = set()

    @pydantic.computed_field
    def next(self) -> int:
        return self.number + 1


ORDER = Order(orderNumber=7, at=datetime(2026, 3, 29, tzinfo=UTC), money=decimal.Decimal("1.10"), labels={"a", "b"})


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
    place: Path = Path("/srv/ä")
    places: dict[str, list[PurePosixPath]] = msgspec.field(default_factory=lambda: {"a": [PurePosixPath("b")]})
    order: Order | None = msgspec.field(default_factory=lambda: ORDER)


def test_what_the_docstring_names_arrives_as_it_was_sent():
    assert JobCodec([Survives]).decode("survives", encode_body(Survives())) == Survives()


class Ship(Job[Order]):
    order: Order
    file: Path = Path("label.pdf")

    def run(self, context):
        assert self.order == ORDER
        order = context.step("pack", pack, self.order, self.file)
        self.file = self.file.with_suffix(".png")
        context.checkpoint()
        return order


def pack(order: Order, file: Path) -> Order:
    assert file.suffix in {".pdf", ".png"}
    return order


def test_a_model_is_a_result_too_of_a_job_and_of_a_step_wherever_the_job_is_killed():
    for client in killed_everywhere(Ship):
        assert client.enqueue(Ship(order=ORDER)).result(timeout=0) == ORDER, client.killed_at


def test_a_model_is_the_value_of_an_event():
    class Await(Job[int]):
        def run(self, context):
            return context.wait_for("order", Order).number

    with run_inline(Await) as client:
        handle = client.enqueue(Await())
        handle.send("order", ORDER)
        assert handle.result(timeout=0) == 7
    assert Await().run(FakeContext(events={"order": [ORDER]})) == 7


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"orderNumber": 0}, r"does not fit its class Ship: order: .* validation errors for Order .* greater than 0"),
        (ORDER.model_copy(update={"weight": float("nan")}), "order.weight is nan, which JSON has no word for"),
        (socket.socket, "Encoding objects of type type is unsupported"),
    ],
)
def test_what_is_no_valid_model_is_refused_before_it_is_sent(order, said):
    with pytest.raises(BodyInvalid, match=said) as caught:
        encode_body(Ship(order=order))
    assert "\n" not in str(caught.value)


def test_whatever_a_validator_raises_the_body_is_refused():
    class Broken(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def look_up(cls, value):
            raise LookupError("no such number")

    with pytest.raises(BodyInvalid, match="place: a validator raised LookupError: no such number"):
        encode_body(job_with(Broken)(fine=1, place=Broken.model_construct(number=1)))


def test_a_path_is_a_text():
    with pytest.raises(BodyInvalid, match="does not fit its class Ship: file: "):
        encode_body(Ship(order=ORDER, file=7))
    assert b'"file":"a/b"' in encode_body(Ship(order=ORDER, file="a/b"))


def test_forms_of_a_page_know_of_paths_and_models():
    class Pack(Job):
        file: Path
        order: Order

        def run(self, context): ...

    properties = msgspec.json.decode(job_class(Pack).schema)["$defs"]["Pack"]["properties"]
    assert properties == {"file": {"type": "string"}, "job": {"enum": ["Pack"]}, "order": {"type": "object"}}


def job_with(kind):
    class Wrong(Job):
        fine: int
        place: kind

    return Wrong


@pytest.mark.parametrize("kind", [socket.socket, socket.socket | None, list[dict[str, socket.socket]], type, complex])
def test_what_json_cannot_carry_is_refused(kind):
    with pytest.raises(ConfigError, match=r"Wrong: JSON cannot carry its field place, a [\w.]+; use text"):
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
