"""Loading job classes."""

import re
import sys

import pytest

from pinlater.errors import ConfigError
from pinlater.jobs.loader import (
    ModulesInvalid,
    load_hooks,
    load_job_classes,
    load_middleware,
    make_codec,
    refuse_blocking,
    unnamed_queues,
)

JOB = "from pinlater import Job\nclass {name}(Job{options}):\n    def run(self, context): pass\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write modules into a folder that is the current one; forget them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    known = set(sys.modules)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__in__", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    yield write
    for name in set(sys.modules) - known:
        del sys.modules[name]


def job(name, options=""):
    return JOB.format(name=name, options=options)


def load(*names):
    return [kind.__name__ for kind in load_job_classes(names)]


def test_a_module_of_the_current_folder(project):
    project(wk_mail=job("Mail") + job("Post"))
    assert load("wk_mail") == ["Mail", "Post"]


def test_a_current_folder_that_was_deleted(project, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ModulesInvalid, match="the current directory was deleted"):
        load("wk_mail")


def test_a_file(project):
    project(wk_dir__in__wk_file=job("Filed"))
    assert load("wk_dir/wk_file.py") == ["Filed"]


def test_a_package_with_all_that_is_in_it_but_programs(project):
    project(
        wk_pack__in____init__="",
        wk_pack__in__a=job("A"),
        wk_pack__in__b=job("B"),
        wk_pack__in____main__="raise SystemExit('was run')",
    )
    assert load("wk_pack") == ["A", "B"]


def test_a_module_of_a_package_may_have_a_name_that_no_import_statement_can_write(project, tmp_path):
    (tmp_path / "wk_shop" / "migrations").mkdir(parents=True)
    for name in ("__init__", "migrations/__init__", "migrations/0001_initial"):
        (tmp_path / "wk_shop" / f"{name}.py").touch()
    project(wk_shop__in__jobs=job("Ship"))
    assert load("wk_shop") == ["Ship"]


def test_a_class_that_is_only_imported_is_for_other_workers(project):
    project(wk_theirs=job("Theirs"), wk_ours="from wk_theirs import Theirs\n" + job("Ours"))
    assert load("wk_ours") == ["Ours"]


def test_a_class_in_all_is_offered(project):
    project(wk_theirs2=job("Theirs"), wk_ours2="from wk_theirs2 import Theirs\n__all__ = ['Theirs']\n")
    assert load("wk_ours2") == ["Theirs"]


def test_a_class_that_two_modules_name_is_one(project):
    project(wk_one=job("One"), wk_two="from wk_one import One\n")
    assert load("wk_one", "wk_two", "wk_one") == ["One"]


def test_a_base_without_run_is_no_job(project):
    project(wk_base="from pinlater import Job\nclass Base(Job): pass\n" + job("Real"))
    assert load("wk_base") == ["Real"]


def test_all_that_is_wrong_is_said_with_its_place(project, tmp_path):
    project(wk_bad="import os\n1 / 0\n", wk_worse="x = (\n", wk_good=job("Good"))
    with pytest.raises(ModulesInvalid) as caught:
        load("wk_bad", "wk_worse", "wk_good", "wk_absent", "nowhere.py", "wk_bad")
    zero, syntax, absent, file = caught.value.problems
    assert zero == f"cannot load wk_bad: {tmp_path}/wk_bad.py:2: ZeroDivisionError: division by zero"
    assert syntax.startswith(f"cannot load wk_worse: {tmp_path}/wk_worse.py:1: SyntaxError: ")
    assert absent == (
        "cannot load wk_absent: ModuleNotFoundError: No module named 'wk_absent'; "
        f"it is neither in {tmp_path} nor installed"
    )
    assert file == "cannot load nowhere.py: FileNotFoundError: no such file"


def test_the_place_is_where_the_user_can_do_something(project, tmp_path):
    project(wk_inner="def f():\n    raise ValueError('of\\nours')\n", wk_outer="import wk_inner\nwk_inner.f()\n")
    with pytest.raises(ModulesInvalid) as caught:
        load("wk_outer")
    assert caught.value.problems == [f"cannot load wk_outer: {tmp_path}/wk_inner.py:2: ValueError: of ours"]


@pytest.mark.parametrize(
    "text",
    [
        "import argparse\nargparse.ArgumentParser().parse_args(['--no-such-option'])\n",
        "raise SystemExit(0)\n",
        "from pinlater import Client\nClient('127.0.0.1:1', timeout=0.1).queue_names()\n",
    ],
)
def test_a_module_that_does_its_work_when_it_is_imported_is_met_with_advice(project, text):
    project(wk_script=text)
    with pytest.raises(ModulesInvalid, match="; it does its work when it is imported: put that under if __name__ == "):
        load("wk_script")


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("queu='mail'", "job class Mail: queu is no option; did you mean 'queue'?"),
        ("attempts='3'", "job Mail: attempts='3' has to be a whole number"),
    ],
)
def test_a_header_that_makes_no_sense_is_blamed_on_its_line(project, tmp_path, option, complaint):
    project(wk_header=job("Fine") + job("Mail", f", {option}"))
    with pytest.raises(ModulesInvalid) as caught:
        load("wk_header")
    place = f"{tmp_path}/wk_header.py:5"
    assert caught.value.problems == [f"cannot load wk_header: {place}: TypeError: {complaint}"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("wk_recipts", "No module named 'wk_recipts'; did you mean wk_receipts?"),
        ("wk_receipts.SendReceipt", "'wk_receipts' is not a package; name the module alone: wk_receipts"),
        ("./", "not a module name; write one such as my_project.jobs, or the path of a .py file"),
        ("wk-receipts", "not a module name"),
    ],
)
def test_a_wrong_name_of_a_module_is_met_with_advice(project, name, advice):
    project(wk_receipts=job("SendReceipt"))
    with pytest.raises(ModulesInvalid, match=re.escape(advice)):
        load(name)


def test_a_module_that_a_good_one_lacks_is_not_taken_for_a_wrong_name(project, tmp_path):
    project(wk_needs="import wk_gone\n")
    with pytest.raises(ModulesInvalid) as caught:
        load("wk_needs")
    assert caught.value.problems == [
        f"cannot load wk_needs: {tmp_path}/wk_needs.py:1: ModuleNotFoundError: No module named 'wk_gone'"
    ]


def test_a_file_of_a_package_that_needs_its_package_is_to_be_named_as_a_module(project):
    project(wk_dir__in____init__="", wk_dir__in__wk_rel="from .models import X\n")
    with pytest.raises(ModulesInvalid, match=r"; name the module, such as wk_dir\.wk_rel, not its file$"):
        load("wk_dir/wk_rel.py")


def test_a_file_may_not_take_the_name_of_a_module(project):
    project(json=job("Json"))
    with pytest.raises(ModulesInvalid, match="a module json is loaded already; rename the file"):
        load("json.py")


def test_no_job_class_at_all(project):
    project(wk_empty="x = 1\n")
    with pytest.raises(ModulesInvalid, match="no job class in wk_empty; define one"):
        load("wk_empty")


def test_job_classes_that_are_only_imported(project):
    project(wk_parts=job("Part") + job("Whole"), wk_all="from wk_parts import Part, Whole\n")
    with pytest.raises(
        ModulesInvalid,
        match="no job class in wk_all; wk_all only imports Part, Whole: name the modules that define them: wk_parts",
    ):
        load("wk_all")


@pytest.mark.parametrize("name", ["queue", "time"])
def test_a_file_that_a_module_of_python_hides(project, tmp_path, name):
    project(**{name: job("Hidden")})
    with pytest.raises(ModulesInvalid) as caught:
        load(name)
    said = caught.value.problems[0]
    assert said.startswith(f"no job class in {name}; Python has a module {name} of its own (")
    assert said.endswith(f"); give {tmp_path}/{name}.py another name")


def test_job_classes_that_only_lack_run(project):
    project(wk_bare="from pinlater import Job\nclass Base(Job): pass\nclass Mail(Base): pass\n")
    with pytest.raises(ModulesInvalid, match=r"in wk_bare can be run: define run\(self, context\) in Base, Mail"):
        load("wk_bare")


def test_a_queue_that_no_class_has_may_hold_jobs_of_typed_classes(project):
    project(wk_mails=job("Mails"))
    codec = make_codec(load_job_classes(["wk_mails"]), ["mails", "letters"])
    assert codec.queues == ["mails"]
    assert unnamed_queues(codec, ["mails", "letters"]) == ["letters"]
    assert codec.decode("letters", b'{"job": "Mails"}').job_options.queue == "mails"


def test_a_queue_that_no_class_has_cannot_be_served_by_raw_classes_alone(project):
    project(wk_raw="from pinlater import RawJob\nclass Old(RawJob, queue='old'):\n  def run(self, context): pass\n")
    with pytest.raises(ConfigError, match="no job class has the queue 'letters'; there are old"):
        make_codec(load_job_classes(["wk_raw"]), ["old", "letters"])


def test_two_classes_of_one_name(project):
    project(wk_x=job("Same"), wk_y=job("Other", ', name="Same"'))
    with pytest.raises(ConfigError, match="two job classes are named 'Same'"):
        make_codec(load_job_classes(["wk_x", "wk_y"]), [])


def test_an_event_loop_takes_no_plain_classes_of_its_queues(project):
    later = "from pinlater import Job\nclass Later(Job):\n    async def run(self, context): pass\n"
    project(wk_mixed=later + job("Mail") + job("Post", ", queue='letters'"))
    kinds = load_job_classes(["wk_mixed"])
    refuse_blocking(kinds, ["later"])
    with pytest.raises(ConfigError, match=r"would stop: Mail \(queue mail\), Post \(queue letters\); .* --threads"):
        refuse_blocking(kinds, ["later", "mail", "letters"])


AROUND = "from contextlib import nullcontext\ndef around(job, context): return nullcontext()\nnumber = 7\n"
NOT_AROUND = "async def later(job, context): ...\nasync def each(job, context): yield\ndef bare(job, context): yield\n"


def test_middleware_is_found_in_modules_and_files_also_those_of_jobs(project):
    project(wk_around=AROUND, wk_both=AROUND + job("Both"))
    assert [each.__name__ for each in load_middleware(["wk_around:around", "wk_both.py:around"])] == ["around"] * 2
    assert load("wk_both.py") == ["Both"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("around", "--middleware around: write MODULE:NAME"),
        (":around", "write MODULE:NAME"),
        ("wk_wrong:", "write MODULE:NAME"),
        ("wk_nowhere:around", "cannot load wk_nowhere: ModuleNotFoundError"),
        ("wk_wrong:aruond", "wk_wrong has no aruond; check its spelling"),
        ("wk_wrong:number", "number is of type int"),
        ("wk_wrong:Wrong", "Wrong is a job class"),
        ("wk_wrong:later", "later is async def; it must be a callable that takes a job and its context"),
        ("wk_wrong:each", "each is async def"),
        ("wk_wrong:bare", "bare is a generator function; it must be a callable that"),
    ],
)
def test_middleware_that_cannot_be_loaded(project, text, why):
    project(wk_wrong=AROUND + NOT_AROUND + job("Wrong"))
    with pytest.raises(ModulesInvalid) as caught:
        load_middleware([text, "also-wrong"])
    assert why in caught.value.problems[0]
    assert "also-wrong" in caught.value.problems[1]


def test_a_hook_that_would_run_nothing_is_refused(project):
    project(wk_hooks="async def open_pool(): ...\ndef each():\n    yield\ndef fine(): ...\n")
    assert len(load_hooks("--on-start", ["wk_hooks:fine"])) == 1
    with pytest.raises(ModulesInvalid) as caught:
        load_hooks("--on-start", ["wk_hooks:open_pool", "wk_hooks:each"])
    assert caught.value.problems == [
        "--on-start wk_hooks:open_pool: open_pool is async def; it must be a plain function without arguments",
        "--on-start wk_hooks:each: each is a generator function; it must be a plain function without arguments",
    ]
