"""The colors of the dashboard: text stands out from what is behind it, in the light and in the dark."""

import re
from importlib.resources import files

import pytest

SHEET = files("pinlater.dashboard").joinpath("static", "style.css").read_text()
TEXTS = ("text", "quiet", "pending", "retrying", "scheduled", "running", "failed", "succeeded")
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_buttons_can_be_read(theme):
    known = colors(theme)
    for fill in ("accent-fill", "danger-fill"):
        assert contrast([255, 255, 255], known[fill]) >= ENOUGH, fill


# Linear RGB as people see it who lack one kind of cone (Viénot, Brettel and Mollon 1999; Brettel for the third).
SIGHTS = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red cones": [[0.1124, 0.8876, 0], [0.1124, 0.8876, 0], [0.004, -0.004, 1]],
    "no green cones": [[0.2928, 0.7072, 0], [0.2928, 0.7072, 0], [-0.0223, 0.0223, 1]],
    "no blue cones": [[1.0144, 0.0853, -0.0997], [-0.0107, 0.9115, 0.0992], [-0.0107, 0.9115, 0.0992]],
}


def seen(color, sight):
    linear = [(part / 255) ** 2.2 for part in color]
    mixed = (sum(share * part for share, part in zip(row, linear, strict=True)) for row in SIGHTS[sight])
    return [min(max(part, 0.0), 1.0) for part in mixed]


def distance(one, other, sight):
    """Return the difference of two colors as in CIE 1976; 2 can just be noticed, 20 cannot be overlooked."""
    return sum((a - b) ** 2 for a, b in zip(_lab(seen(one, sight)), _lab(seen(other, sight)), strict=True)) ** 0.5


def _lab(linear):
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (
        (sum(share * part for share, part in zip(row, linear, strict=True)) / most)
        for row, most in zip(rows, white, strict=True)
    )
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return (116 * y - 16, 500 * (x - y), 200 * (y - z))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_accent_and_danger_cannot_be_mistaken_for_each_other(theme, sight):
    known = colors(theme)
    assert distance(known["accent-fill"], known["danger-fill"], sight) > 35
    assert distance(known["accent"], known["failed"], sight) > 35


def test_the_measure_is_that_of_the_rule():
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([0x76, 0x76, 0x76], [255, 255, 255]) == pytest.approx(4.54, abs=0.01)
