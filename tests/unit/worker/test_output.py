"""What jobs print."""

import sys

import pytest

from pinlater.worker.output import make_output_lossy


@pytest.mark.parametrize(
    ("encoding", "errors", "written"),
    [
        ("ascii", "strict", b"gr\\xfcn \\udcff\n"),
        ("utf-8", "strict", "grün \\udcff\n".encode()),
        ("utf-8", "surrogateescape", "grün ".encode() + b"\xff\n"),
    ],
)
def test_text_that_the_encoding_lacks_is_escaped(tmp_path, monkeypatch, encoding, errors, written):
    with (tmp_path / "out").open("w", encoding=encoding, errors=errors) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        make_output_lossy()
        print("grün \udcff")
        assert (tmp_path / "out").read_bytes() == written
