"""axe-core, which finds what keeps people from using a page: with a screen reader, by keyboard, with weak eyes."""

import functools
import os
import sys
from pathlib import Path

import pytest

INSTALL = "npm install --prefix .venv/axe axe-core@4.14.1"
_RUN = """rules => axe.run(document, {
    iframes: false, resultTypes: ["violations"], ...(rules.length ? {runOnly: {type: "rule", values: rules}} : {})
}).then(found => found.violations.map(violation => ({
    rule: violation.id, help: violation.help, nodes: violation.nodes.slice(0, 5).map(node => node.html.slice(0, 300)),
})))"""


@functools.cache
def source():
    """Return the script; skip the test if it is not there."""
    named = os.environ.get("AXE_CORE")
    path = Path(named) if named else Path(sys.prefix) / "axe/node_modules/axe-core/axe.min.js"
    if not path.exists():
        pytest.skip(f"no axe-core to look at pages with: {INSTALL}, or set AXE_CORE to its axe.min.js")
    return path.read_text()


def violations(page, *rules):
    """Return what is wrong with the page that a browser shows: by these rules, or by all of them."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(source())  # not as a script of the page: those have to come from the server
    return page.evaluate(_RUN, list(rules))
