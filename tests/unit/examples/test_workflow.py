"""The report: every step once, also when the last one fails."""

import pytest

from jobs_example import workflow
from jobs_example.workflow import PublishReport
from pinlater.jobs.body_codec import JobCodec
from pinlater.testing import FakeContext


@pytest.fixture
def library(tmp_path, monkeypatch):
    root = tmp_path / "library"
    (root / "big").mkdir(parents=True)
    (root / "big" / "one.py").write_text("x = 1\n" * 40)
    (root / "big" / "two.py").write_text("x = 1\n" * 30)
    (root / "small.py").write_text("x = 1\n" * 5)
    monkeypatch.setattr(workflow, "STANDARD_LIBRARY", root)
    monkeypatch.setattr(workflow, "source_files", lambda: sorted(root.rglob("*.py")))


@pytest.fixture
def posted(monkeypatch):
    calls = []

    def post(url, event, key):
        calls.append((url, event, key))
        if len(calls) == 1:
            raise OSError("receiver is away")

    monkeypatch.setattr(workflow, "post", post)
    return calls


def test_steps_that_are_done_are_not_done_again(library, posted, tmp_path):
    job = PublishReport(report=str(tmp_path / "report.md"), url="http://example.com/news")
    first = FakeContext()
    with pytest.raises(OSError):
        job.run(first)
    (tmp_path / "report.md").write_text("only a second writing would replace this")
    second = FakeContext(steps=first.steps, attempt=2)
    job.run(second)
    assert (first.ran, second.ran) == (["measure", "write"], ["announce"])
    assert (tmp_path / "report.md").read_text().startswith("only")
    assert posted[0] == posted[1] == (job.url, {"report": job.report, "lines": 75}, "test:s1:p1:1")


def test_the_report_lists_the_largest_first(library, posted, tmp_path):
    posted.append(None)
    PublishReport(report=str(tmp_path / "report.md"), url="u", length=1).run(FakeContext())
    assert (tmp_path / "report.md").read_text().splitlines()[4:] == ["| big | 70 |"]


def test_all_examples_share_a_codec():
    import jobs_example

    codec = JobCodec(getattr(jobs_example, name) for name in jobs_example.__all__)
    assert codec.queues == ["deliveries", "reports", "source_index", "thumbnails"]
