"""Tables, and how they fit a terminal."""

import pytest

from pinlater.cli.tables import Table, shortened_middle


def test_columns_are_aligned_and_keep_their_widths(capsys):
    table = Table(["NAME", "N", "TEXT"], numbers=[1])
    table.print([["a", "1", "x"], ["longer", "100", ""]])
    table.print([["b", "2", "y"]])
    assert capsys.readouterr().out.splitlines() == [
        "NAME      N  TEXT",
        "a         1  x",
        "longer  100",
        "b         2  y",
    ]


LONG = "customer_import_of_a_very_large_file_from_the_north_region_part_7"


def test_texts_are_shortened_in_the_middle_to_fit():
    table = Table(["NAME", "N", "STATUS"], numbers=[1], width=40)
    lines = table.lines([[LONG, "123,456", "failed"], ["short", "1", "x" * 60]])
    assert max(map(len, lines)) == 40
    assert lines[1].startswith("custome\N{HORIZONTAL ELLIPSIS}part_7  123,456  failed")
    assert "123,456" in lines[1], "numbers are never cut"
    assert table.left_out == []
    later = table.lines([["y" * 70, "9", ""]])
    assert later[0].count("\N{HORIZONTAL ELLIPSIS}") == 1, "later pages have the widths of the first"


def test_columns_are_left_out_if_all_would_say_too_little(capsys):
    table = Table(["NAME", "CREATED", "KEY", "STATUS"], width=36, optional=["CREATED", "KEY"])
    table.print([[LONG, "2026-11-23T06:18:11.123Z", "k" * 20, "s" * 50]])
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["NAME", "KEY", "STATUS"]
    assert max(map(len, out.splitlines())) <= 36
    assert err == "left out: CREATED; --wide shows all\n"
    wide = Table(["NAME", "CREATED", "KEY", "STATUS"], optional=["CREATED", "KEY"])
    assert "2026-11-23T06:18:11.123Z" in wide.lines([[LONG, "2026-11-23T06:18:11.123Z", "k", "s"]])[1]


def test_times_are_short_on_a_terminal_and_descriptors_whole():
    table = Table(["DESCRIPTOR", "CREATED", "STATUS"], width=60, whole=[0])
    descriptor = f"{LONG[:40]}:s1:p1:7"
    [_, line] = table.lines([[descriptor, "2026-11-23T06:18:11.123Z", "s" * 50]])
    assert line.startswith(f"{descriptor}  11-23")
    assert Table(["AT"], width=80).lines([["2026-11-23T06:18:11.123Z"]])[1] == "11-23 06:18:11"


@pytest.mark.parametrize(
    ("most", "shown"),
    [(10, "abcdefghij"), (9, "abcd\N{HORIZONTAL ELLIPSIS}ghij"), (2, "a\N{HORIZONTAL ELLIPSIS}")],
)
def test_the_middle_is_cut(most, shown):
    assert shortened_middle("abcdefghij", most) == shown
