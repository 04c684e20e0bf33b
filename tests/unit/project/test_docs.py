"""What the documents say can be done can be done."""

import re
from pathlib import Path

import pytest

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


def test_the_version_is_in_the_changelog_or_unreleased():
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_tests_behind_the_promises_exist():
    promises = ROOT / "docs" / "promises.md"
    links = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", promises.read_text())
    assert len(links) > 40
    for name, link in links:
        assert re.search(rf"def {name}\(", (promises.parent / link).read_text()), f"{link} has no {name}"
