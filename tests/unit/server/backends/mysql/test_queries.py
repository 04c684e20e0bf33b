"""Values in statements: literals that mean themselves and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.server.backends.mysql.queries import Queries, blob, text
from tests.support.examples import examples

LITERAL = re.compile(rb"(?:_binary)?'((?:[^']|'')*)'", re.DOTALL)


@pytest.fixture
def queries():
    return Queries("pinlater_1")


@examples(100)
@given(st.binary())
def test_bytes_cannot_leave_their_literal(value):
    found = LITERAL.fullmatch(blob(value))
    assert found, "one literal from end to end"
    assert found[1].replace(b"''", b"'") == value


@examples(100)
@given(st.text())
def test_texts_cannot_leave_their_literal(value):
    found = LITERAL.fullmatch(text(value))
    assert found[1].replace(b"''", b"'").decode() == value


def test_each_kind_of_value_has_its_literal(queries):
    statement = queries.bind(
        "checkpoint_job", id=7, queue=1, priority=2, claim=b"it's", now=5, has_body=True, body=b"\0\\", body_bytes=2,
        is_back=False, run_after=-1, attempts=None, status="a'b", has_keys=False, has_parents=False, waits_for=None,
        kept=0,
    )  # fmt: skip
    assert statement.startswith(b"UPDATE pinlater_1.jobs FORCE INDEX (PRIMARY) SET body_bytes = IF(1, 2, body_bytes)")
    for piece in (
        b"body = IF(1, _binary'\0\\', body)",
        b"COALESCE(-1, run_after)",
        b"COALESCE(NULL,",
        b"LEFT(CONCAT('a''b',",
        b"claim = _binary'it''s'",
    ):
        assert piece in statement


def test_a_list_that_is_empty_matches_nothing(queries):
    assert b"IN (null)" in queries.bind("job_bodies", ids=[])
    assert b"IN (1,2)" in queries.bind("job_bodies", ids=[1, 2])
    assert b"'[null]'" in queries.bind("delete_ids", ids=[])
    assert b"'[1,2]'" in queries.bind("delete_ids", ids=[1, 2])
    assert b"IN (_binary'a',_binary'''')" in queries.bind("unique_jobs", queue=1, keys=[b"a", b"'"])


def test_a_value_that_is_missing_is_an_error(queries):
    with pytest.raises(KeyError):
        queries.bind("delete_ids", other=[1])


@pytest.mark.parametrize("name", ["", "a b", "a`b", "a;b", "ä", "x" * 65])
def test_only_plain_names_of_databases(name):
    with pytest.raises(ValueError, match="not a valid database name"):
        Queries(name)


def test_nothing_of_a_comment_is_left(queries):
    for name in queries.names:
        sql = b"".join(queries._pieces[name])
        assert b"--" not in sql
        assert b"{" not in sql
        assert b";" not in sql, "one statement each"
    assert all(b"--" not in statement for statement in queries.schema(1))
