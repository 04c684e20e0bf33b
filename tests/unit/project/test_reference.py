"""The pages of docs/reference/ say what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import pinlater
from pinlater.model.backoff import DEFAULT_BACKOFF

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date(tmp_path):
    subprocess.run([sys.executable, ROOT / "docs" / "make_reference.py", tmp_path], check=True, timeout=60)
    made = {page.name: page.read_text() for page in tmp_path.iterdir()}
    kept = {page.name: page.read_text() for page in (ROOT / "docs" / "reference").iterdir()}
    assert sorted(made) == sorted(kept)
    for name, text in made.items():
        assert text == kept[name], f"docs/reference/{name} is out of date: make reference, and commit it"


def test_what_the_pages_are_about_is_on_them():
    pages = {page.stem: page.read_text() for page in (ROOT / "docs" / "reference").iterdir()}
    assert "| `THRIFT_PORT` | `9010` |" in pages["settings"]
    assert "| `--drain TIME` |" in pages["programs"]
    assert f"| `backoff` | `{DEFAULT_BACKOFF}` |" in pages["jobs"]
    assert "### JobContext.checkpoint\n\n`checkpoint(*, flush: bool = False) -> None`" in pages["jobs"]
    assert "| `PinLaterDequeueRequest.waitMillis` | `i32` | Long poll" in pages["wire"]
    assert "| `pinlater_jobs_enqueued_total` | counter | `queue` |" in pages["metrics"]
    assert "## Client\n\nClient of" in pages["clients"]


def test_a_module_of_jobs_imports_all_that_its_page_describes_from_pinlater():
    page = (ROOT / "docs" / "reference" / "jobs.md").read_text()
    described = re.findall(r"^##+ (\w+)$", page, re.MULTILINE)
    others = {"Backoffs", "Saga"}  # a heading; what context.saga() returns
    assert [name for name in described if name not in {*pinlater.__all__, *others}] == []


def test_errors_of_waits_and_results_can_be_imported_where_those_of_jobs_can():
    raised = {"EventInvalid", "EventTimeout", "JobFailed", "JobGone", "JobUnfinished", "JobWasCancelled", "JoinTimeout"}
    assert raised <= set(pinlater.__all__)
