"""What ``--reload`` watches."""

from pathlib import Path

import pytest

from pinlater.worker.reloader import _is_source, folders_of


@pytest.fixture
def project(tmp_path, monkeypatch):
    for file in ("shop/__init__.py", "shop/jobs/mail.py", "alone.py", "elsewhere/more.py", "spaced/deep/jobs.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("raise AssertionError('nobody is to run this')")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        (["shop"], ["shop"]),
        (["shop.jobs.mail"], ["shop"]),
        (["alone"], ["."]),
        (["elsewhere/more.py"], ["elsewhere"]),
        (["spaced.deep.jobs"], ["spaced"]),
        (["shop", "shop.jobs", "alone"], ["shop", "."]),
        (["no_such_module"], ["."]),
        (["sys"], ["."]),
        (["no/such/file.py"], ["."]),
    ],
)
def test_folders(project, names, folders):
    assert folders_of(names) == [(project / folder).resolve() for folder in folders]


@pytest.mark.parametrize(
    ("path", "is_source"),
    [("a/jobs.py", True), ("a/.#jobs.py", False), ("a/jobs.pyc", False), ("a/jobs.py~", False), ("a/data.json", False)],
)
def test_only_python_files_count(path, is_source):
    assert _is_source(None, str(Path(path))) is is_source
