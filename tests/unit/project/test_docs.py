"""What the documents say can be done can be done."""

import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pinlater
from tests.support import django_project

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def targets():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_readme_opens_with_the_two_commands():
    assert re.findall(r"^\$ (make \w+)", blocks(README, "console")[0], re.MULTILINE) == ["make demo", "make test"]


@pytest.mark.parametrize("code", blocks(README, "python"), ids=lambda code: code.splitlines()[0])
def test_python_in_the_readme_compiles_and_names_what_exists(code):
    compile(code, "README.md", "exec")
    for line in re.findall(r"^from pinlater import .*", code, re.MULTILINE):
        exec(line, {})


def test_the_first_example_is_short_and_defines_a_job():
    code = blocks(README, "python")[0]
    assert len(code.splitlines()) <= 25
    namespace = {"__name__": "pages"}
    exec(code, namespace)
    assert namespace["SavePage"].job_options.queue == "pages"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_exist(document):
    named = set(re.findall(r"(?:^\$ |`)make ([a-z]+)", document.read_text(), re.MULTILINE))
    assert named <= targets()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", document.read_text()):
        target = document.parent / link if link else document
        if "://" not in link:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def anchors(document):
    """Return what a forge makes of the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_folders_and_files_named_in_tables_exist(document):
    for name in re.findall(r"^\| `([\w/.]+/)`", document.read_text(), re.MULTILINE):
        assert (ROOT / name).is_dir(), name


def test_every_make_target_explains_itself():
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z]+):.*## \w", makefile, re.MULTILINE))
    assert targets() == explained >= {"help", "venv", "demo", "test", "lint", "bench", "clean"}


def test_an_environment_of_another_python_than_is_asked_for_is_made_again(tmp_path):
    for name in ("Makefile", "pyproject.toml", ".ci/make-venv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    environment, asked = tmp_path / ".venv" / "bin" / "python", tmp_path / "python"
    environment.parent.mkdir(parents=True)
    for path, version in ((environment, "3.11.2"), (asked, "3.14.0")):
        path.write_text(f"#!/bin/sh\necho Python {version}\n")
        path.chmod(0o755)
    (tmp_path / ".venv" / "made").touch()

    def is_made(*options):
        return ".ci/make-venv" in subprocess.check_output(["make", "-n", "venv", *options], cwd=tmp_path, text=True)

    assert is_made(f"PYTHON={asked}")
    assert not is_made(f"PYTHON={environment}")
    assert not is_made("PYTHON=")


def test_the_changelog_has_the_version():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(pinlater.__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1])


def test_the_tests_behind_the_promises_exist():
    promises = ROOT / "docs" / "promises.md"
    links = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", promises.read_text())
    assert len(links) > 40
    for name, link in links:
        assert re.search(rf"def {name}\(", (promises.parent / link).read_text()), f"{link} has no {name}"


HAND_WRITTEN = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *(page for page in DOCUMENTS if (ROOT / "docs") in page.parents and page.parent.name != "reference"),
]
"""Pages that name parts of the code."""

LOGGERS = {
    name
    for path in (ROOT / "pinlater").rglob("*.py")
    for name in re.findall(r'getLogger\("([\w.]+)"\)', path.read_text())
}


@pytest.mark.parametrize("document", HAND_WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_modules_named_in_the_text_exist(document):
    django_project.set_up()
    text = without_blocks(document.read_text())
    paths = re.findall(r"`((?:pinlater|supervisor|tests|docs|benchmarks|jobs_example|tools)/[\w./-]*)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    names = re.findall(r"`((?:pinlater|pinlater_supervisor|benchmarks)(?:\.\w+)+)`", text)
    assert [name for name in names if name not in LOGGERS and not is_there(name)] == []


ABOUT_THE_CODE = [
    page for page in HAND_WRITTEN if page.parent == ROOT or "design" in page.parts or page.name == "glossary.md"
]
SOURCES = [
    ROOT / "pyproject.toml",
    *(
        path
        for folder in ("pinlater", "supervisor", "tests", "benchmarks", "jobs_example", "tools", "docs/guides")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".pyi", ".thrift", ".lua", ".sql", ".md", ".html"}
    ),
]


@pytest.fixture(scope="module")
def words_of_the_code():
    names = {path.stem for path in SOURCES}
    return names.union(*(re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in SOURCES))


@pytest.mark.parametrize("document", ABOUT_THE_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_identifiers_named_in_the_text_exist(document, words_of_the_code):
    quoted = re.findall(r"`([^`]+)`", without_blocks(document.read_text()))
    words = {word for text in quoted for word in re.findall(r"[A-Za-z_]\w+", text)}
    identifiers = {word for word in words if re.search(r"[a-z]_[a-z]|[a-z][A-Z]|[A-Z]_[A-Z]", word)}
    assert identifiers - words_of_the_code == set()


def without_blocks(text):
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def is_there(name):
    """Whether a dotted name is a module, or what a module has."""
    module, rest = name, []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
            if not module:
                return False
    for part in rest:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_a_name_that_is_not_there_would_be_found():
    assert is_there("pinlater.jobs.job.Job.run")
    assert not is_there("pinlater.jobs.job.Job.walk")
    assert not is_there("pinlater.jubs")


def test_architecture_is_read_in_a_few_minutes():
    assert len((ROOT / "ARCHITECTURE.md").read_text().split()) <= 1800


def test_each_term_is_defined_once():
    terms = re.findall(r"^\| ([\w -]+) \| [A-Z\d]", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert len(terms) >= 40
    assert sorted(terms) == sorted(set(terms))
