"""Patterns for jobs of a class, with an argument, as the server searches for them."""

import pytest

from pinlater.model.body_patterns import body_pattern
from pinlater.server.backends.body_pattern import BodyPattern

BODY = '{"job":"Send","user_id":42,"name":"Ada \\"B\\"","city":"Ōsu","all":[1,2]}'.encode()


def matches(job, argument, body=BODY):
    return BodyPattern(body_pattern(job, argument), 5.0).matches(body)


@pytest.mark.parametrize(
    ("job", "argument"),
    [
        ("Send", ""),
        ("", "user_id=42"),
        ("", "user_id = 42"),
        ("Send", "user_id=42"),
        ("Send", 'name=Ada "B"'),
        ("Send", "city=Ōsu"),
        ("Send", 'city="Ōsu"'),
        ("Send", "all=[1,2]"),
        ("Send", 'Ada "B"'),
        ("", "Ōsu"),
        ("Send", r'/user_id":\d+/'),
        ("Send", "/nothing|Ada/"),
    ],
)
def test_a_body_is_found(job, argument):
    assert matches(job, argument)


@pytest.mark.parametrize(
    ("job", "argument"),
    [
        ("Sen", ""),
        ("Send2", ""),
        ("Send.", ""),
        ("", "user_id=4"),
        ("", "user=42"),
        ("Other", "user_id=42"),
        ("Send", "user_id=43"),
        ("Send", "name=Ada"),
        ("Send", "/nothing|else/"),
        ("", "U+014C"),
    ],
)
def test_another_body_is_not_found(job, argument):
    assert not matches(job, argument)


def test_bodies_of_other_writers_are_found():
    body = b'{ "city" : "\\u014csu" , "job" : "Send" }\n'
    assert matches("Send", "city=Ōsu", body)
    assert matches("", "Ōsu", body)


def test_an_argument_of_many_lines_is_between():
    assert matches("Send", "b=1", b'{"b": 1,\n\n"job": "Send"}')
