"""The index over a small library: exact, whatever happens on the way."""

import sqlite3

import pytest

from jobs_example import source_index
from jobs_example.source_index import IndexStandardLibrary, source_files
from pinlater import JobInterrupted
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.testing import FakeContext

FILES = 25


@pytest.fixture
def library(tmp_path, monkeypatch):
    root = tmp_path / "library"
    (root / "package").mkdir(parents=True)
    for number in range(FILES - 1):
        (root / f"module_{number:02}.py").write_text(f"def function_{number}():  # remark {number}\n    return 'x'\n")
    (root / "package" / "broken.py").write_bytes(b"def \xff (:  # nonsense\n")
    for left_out in ("site-packages", "package/tests"):
        (root / left_out).mkdir()
        (root / left_out / "foreign.py").write_text("x = 1\n")
    monkeypatch.setattr(source_index, "STANDARD_LIBRARY", root)
    return root


@pytest.fixture
def job(tmp_path, library):
    return IndexStandardLibrary(database=str(tmp_path / "index.sqlite"))


def query(job, sql, *values):
    connection = sqlite3.connect(job.database)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def assert_complete(job, library):
    paths = [str(path.relative_to(library)) for path in source_files()]
    assert [path for (path,) in query(job, "SELECT path FROM source ORDER BY rowid")] == paths
    assert len(paths) == FILES


def test_every_file_is_indexed_once(job, library):
    job.run(FakeContext())
    assert_complete(job, library)
    assert job.cursor == FILES


def test_names_comments_and_code_can_be_searched(job):
    job.run(FakeContext())
    search = "SELECT path FROM source WHERE source MATCH ?"
    assert query(job, search, "names:function_7") == [("module_07.py",)]
    assert query(job, search, 'comments:"remark 3"') == [("module_03.py",)]
    assert query(job, search, "code:nonsense") == [("package/broken.py",)]


def test_an_interrupted_job_goes_on_from_its_checkpoint(job, library):
    with pytest.raises(JobInterrupted):
        job.run(FakeContext(draining_after=1))
    saved = JobCodec([IndexStandardLibrary]).decode("source_index", encode_body(job))
    assert saved.cursor == source_index.FILES_AT_ONCE
    saved.run(FakeContext(attempt=2))
    assert_complete(job, library)
    assert query(job, "SELECT attempt, count(*) FROM source GROUP BY 1 ORDER BY 1") == [(1, 10), (2, 15)]


def test_work_after_the_last_checkpoint_is_done_again_without_doubles(job, library):
    context = FakeContext(draining_after=2)
    with pytest.raises(JobInterrupted):
        job.run(context)
    stale = IndexStandardLibrary(database=job.database, cursor=10)  # 20 files are in the index
    stale.run(FakeContext(attempt=2))
    assert_complete(job, library)


def test_the_cursor_never_runs_ahead_of_the_index(job, monkeypatch):
    reads = []

    def failing_read(path):
        reads.append(path)
        if len(reads) == 15:
            raise OSError("the disk went away")
        return str(path), "", "", ""

    monkeypatch.setattr(source_index, "read", failing_read)
    with pytest.raises(OSError):
        job.run(FakeContext())
    assert query(job, "SELECT count(*) FROM source") == [(job.cursor,)] == [(10,)]


def test_a_finished_job_that_runs_again_changes_nothing(job, library):
    job.run(FakeContext())
    job.run(FakeContext(attempt=2))
    assert_complete(job, library)
    assert query(job, "SELECT DISTINCT attempt FROM source") == [(1,)]


def test_the_real_library_is_found():
    names = {path.name for path in source_files()}
    assert {"bisect.py", "asyncio", "json"} - names == {"asyncio", "json"}
    assert len(names) > 200
