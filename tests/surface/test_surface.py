"""What users can see is as it was: public names, bytes of calls and replies, help texts, settings, metrics, paths."""

import difflib

import pytest

from tests.surface import wire_bytes
from tests.surface.places import idl
from tests.surface.snapshot import FOLDER, PAGES, path_of, rendered

MOST_LINES = 60


@pytest.mark.parametrize("name", PAGES)
def test_it_is_as_it_was(name):
    then, now = path_of(name).read_text(encoding="utf-8"), rendered(name)
    if then == now:
        return
    diff = list(
        difflib.unified_diff(then.splitlines(), now.splitlines(), "as committed", "as it is now", lineterm="", n=1)
    )
    more = [f"... and {len(diff) - MOST_LINES} lines more"] if len(diff) > MOST_LINES else []
    lines = "\n".join([*diff[:MOST_LINES], *more])
    pytest.fail(
        f"tests/surface/snapshots/{name}.txt: users see something else now:\n{lines}\n"
        "If that is meant: make snapshot, and commit it with the change.",
        pytrace=False,
    )


def test_there_is_no_other_file():
    assert {path.stem for path in FOLDER.iterdir()} == set(PAGES)


def test_nothing_that_the_documents_import_is_missing():
    assert "MISSING" not in rendered("imports")


def test_every_method_is_called():
    assert wire_bytes.methods_called() | wire_bytes.NOT_CALLED == set(idl().PinLater.thrift_services)


def test_both_clients_send_the_same():
    blocking, awaited = wire_bytes.calls_of_client(), wire_bytes.calls_of_async_client()
    assert {name: sorted(sent) for name, sent in awaited.items()} == {
        name: sorted(sent) for name, sent in blocking.items()
    }
