"""The colors of the dashboard: text stands out from what is behind it, in the light and in the dark."""

import re
from importlib.resources import files

import pytest

SHEET = files("pinlater.dashboard").joinpath("static", "style.css").read_text()
TEXTS = ("text", "quiet", "pending", "scheduled", "running", "failed", "succeeded")
GROUNDS = ("page", "card", "sunk")
ENOUGH = 4.5
"""WCAG 2, level AA."""


def colors(theme):
    """Return name -> red, green and blue, of a theme."""
    pairs = re.findall(r"--([a-z-]+): light-dark\(#(\w{6}), #(\w{6})\);", SHEET)
    chosen = {name: light if theme == "light" else dark for name, light, dark in pairs}
    return {name: [int(code[at : at + 2], 16) for at in (0, 2, 4)] for name, code in chosen.items()}


def luminance(color):
    parts = [part / 255 for part in color]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def mixed(one, other, share):
    return [first * share + second * (1 - share) for first, second in zip(one, other, strict=True)]


def shares_of_badges():
    """Return how much of its state's color the text and the ground of a badge have."""
    [rule] = re.findall(r"^\.badge \{(.*)\}$", SHEET, re.MULTILINE)
    return [int(percent) / 100 for percent in re.findall(r"var\(--quiet\)\) (\d+)%", rule)]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", GROUNDS)
def test_texts_and_badges_can_be_read(theme, ground):
    known = colors(theme)
    of_text, of_ground = shares_of_badges()
    for name in TEXTS:
        badge = mixed(known[name], known[ground], of_ground)
        assert contrast(mixed(known[name], known["text"], of_text), badge) >= ENOUGH, name
    assert contrast(known["text"], known[ground]) >= ENOUGH
    assert contrast(known["quiet"], known[ground]) >= ENOUGH


def test_the_measure_is_that_of_the_rule():
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([0x76, 0x76, 0x76], [255, 255, 255]) == pytest.approx(4.54, abs=0.01)
