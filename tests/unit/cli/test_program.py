"""The pinlater tool as a whole: its help, its errors and its exit statuses."""

import os
import subprocess
import sys

import pytest

from pinlater import __version__
from pinlater.cli import program
from pinlater.cli.program import tool
from pinlater.errors import QueueNotFound
from tests.unit.cli.answers import info
from tests.unit.client.fake_server import free_address


@pytest.mark.parametrize("name", sorted(tool.commands))
def test_every_command_has_help_with_an_example(tool_run, name):
    status, out, _ = tool_run(name, "--help")
    assert status == 0
    assert f"Examples:\n  pinlater {name}" in out
    assert "..." not in tool.commands[name].get_short_help_str(60)


def test_every_command_has_the_name_by_which_it_is_found():
    assert [command.name for command in tool.commands.values()] == list(tool.commands)


def test_no_garbage_is_looked_for_at_the_end():
    code = (
        "import atexit, gc; atexit.register(lambda: print(len(gc.get_objects()) < gc.get_freeze_count()));"
        "from pinlater.cli import main; main(['--version'])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).endswith("True\n")


def test_the_version(tool_run):
    assert tool_run("--version") == (0, f"pinlater, version {__version__}\n", "")


def test_help_does_not_load_thrift():
    code = (
        "import sys; from pinlater.cli.program import run; run(['--help']);"
        "sys.exit(any(name.split('.')[0] in {'thriftpy2', 'tenacity', 'uvloop'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize("name", list(tool.commands))
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name):
    _, summary = program._COMMANDS[name]
    assert summary == tool.commands[name].get_short_help_str(limit=100)


def test_no_arguments_are_help(capsys):
    from pinlater.cli import main

    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    assert "Usage: pinlater" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["wrong"], 2, "No such command"),
        (
            ["purge", "email"],
            2,
            "'purge'; use pinlater delete-jobs QUEUE --state pending. See pinlater --help",
        ),
        (["inspect", "active"], 2, "use pinlater workers for running jobs"),
        (["count"], 2, "Missing argument 'QUEUE'"),
        (["count", "email", "--state", "lost"], 2, "'lost' is not a state; write pending"),
        (["scan", "email", "--state", "cancelled"], 2, "or failed; cancelled jobs are failed ones."),
        (["count", "email", "--future", "--state", "failed"], 2, "--future needs --state pending"),
        (["enqueue", "email"], 2, "Give the body"),
        (["enqueue", "email", "x", "--file", "-"], 2, "Give the body either"),
        (["enqueue", "email", "-"], 2, "To read the body from stdin, write --file -."),
        (["enqueue", "--app", "json", "-"], 2, "To read the body from stdin, write --file -."),
        (["enqueue", "email", "--json-lines", "-", "--unique", "k"], 2, "--unique"),
        (["enqueue", "e-mail", "x"], 2, "letters, digits and underscore"),
        (["dequeue", "email", "--ack", "--dry-run"], 2, "--ack cannot be combined"),
        (["ack", "email", "d", "--retry-delay", "5"], 2, "add --failed"),
        (["delete-jobs", "email", "--state", "failed"], 2, "add --yes"),
        (["delete-queue", "email"], 2, "PINLATER_ADMIN_PASSWORD"),
        (["load", "enqueue", "email", "--num-queries", "0"], 2, "--num-queries"),
        (["queues", "--timeout", "inf"], 2, "'inf' is not a number of at most"),
        (["count", "email", "surplus"], 2, "unexpected extra argument (surplus). See pinlater count --help."),
        (["queues", "--server", "a:b"], 78, "write host:port"),
        (["queues", "--server", "file:/nowhere/at/all"], 78, "/nowhere/at/all"),
    ],
)
@pytest.mark.usefixtures("no_password")
def test_wrong_use_is_one_line_and_its_status(tool_run, words, status, text):
    found, out, err = tool_run(*words)
    assert (found, out) == (status, "")
    assert text in err
    assert err.startswith("pinlater: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scan", "q", "--status", "failed"], "Did you mean --state? See "),
        (["scan", "q", "--countdown", "5"], "--countdown. See "),
        (["enqueue", "--queue", "q"], "--queue. Write it without one: pinlater enqueue QUEUE BODY. See "),
        (["pause", "--queue", "q"], "--queue. Write it without one: pinlater pause QUEUES. See "),
        (["limit", "q", "--rate"], "Option --rate requires an argument. See "),
        (["count", "q", "--server"], "Option --server requires an argument. See "),
    ],
)
def test_an_option_that_is_wrong_says_what_to_write(tool_run, words, said):
    status, out, err = tool_run(*words)
    assert (status, out) == (2, "")
    plain = err.replace("'", "")  # click quotes names of options from 8.4 on
    assert plain.endswith(f"{said}pinlater {words[0]} --help.\n")


def test_a_number_that_no_call_can_carry_is_2(tool_run, server):
    status, _, err = tool_run("dequeue", "email", "--limit", "9999999999")
    assert (status, server.methods) == (2, [])
    assert "limit" in err


@pytest.mark.parametrize("command", ["failing", "periodic"])
def test_a_queue_that_does_not_exist_is_1_where_a_list_would_be_empty(tool_run, server, command):
    server.answer = lambda call: {"email", "reports"}
    status, out, err = tool_run(command, "email", "e_mail")
    assert (status, out) == (1, "")
    assert err == "pinlater: there is no queue 'e_mail'; did you mean email?\n"


def test_no_server_says_what_to_do(tool_run):
    address = free_address()
    status, _, err = tool_run("queues", "--server", str(address))
    assert status == 69
    assert err == (
        f"pinlater: cannot reach {address}: connection refused; is pinlater-server running? "
        "choose another with --server or PINLATER_SERVERS\n"
    )


def test_a_server_that_does_not_answer_is_69(tool_run, server):
    server.answer = lambda _: "silence"
    status, _, err = tool_run("queues", "--timeout", "0.1")
    assert status == 69
    assert "--timeout" in err


def test_something_else_than_our_server_is_69(tool_run, server):
    server.answer = lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n"
    status, _, err = tool_run("queues")
    assert status == 69
    assert "no PinLater server" in err


def test_a_refusal_is_1(tool_run, server):
    server.answer = lambda _: QueueNotFound("no queue email")
    status, _, err = tool_run("count", "email")
    assert status == 1
    assert err == "pinlater: no queue email; create it with: pinlater create-queue NAME\n"


def test_a_server_that_gives_the_hint_itself_is_not_repeated(tool_run, server):
    server.answer = lambda _: QueueNotFound("no queue email (pinlater create-queue email)")
    assert tool_run("count", "email")[2] == "pinlater: no queue email (pinlater create-queue email)\n"


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("emial", "there is no queue 'emial'; did you mean email?"),
        ("Email_Big", "there is no queue 'Email_Big'; did you mean email_big or email?"),
        ("zzz", "there is no queue 'zzz'; create it first (pinlater create-queue zzz)"),
    ],
)
def test_a_wrong_queue_is_answered_with_near_names(tool_run, server, wrong, hint):
    refusal = QueueNotFound(f"there is no queue {wrong!r}; create it first (pinlater create-queue {wrong})")
    server.answer = lambda call: {"email", "reports", "email_big"} if call.method == "getQueueNames" else refusal
    assert tool_run("count", wrong) == (1, "", f"pinlater: {hint}\n")


def test_queues_that_differ_in_case_alone_are_all_suggested(tool_run, server):
    refusal = QueueNotFound("there is no queue 'EMAIL'")
    server.answer = lambda call: {"Email", "email"} if call.method == "getQueueNames" else refusal
    assert "did you mean Email or email?" in tool_run("count", "EMAIL")[2]


def test_suggestions_that_fail_do_not_change_the_error(tool_run, server):
    refusal = QueueNotFound("there is no queue 'emial'")
    server.answer = lambda call: "hang up" if call.method == "getQueueNames" else refusal
    assert tool_run("count", "emial")[:2] == (1, "")


@pytest.mark.parametrize("name", sorted(set(tool.commands) - {"completion"}))
def test_every_command_gives_json(tool_run, name):
    out = tool_run(name, "--help")[1]
    assert "\nServer and output:\n" in out
    assert "--json" in out.partition("\nServer and output:\n")[2]


def test_common_options_stand_before_or_after_the_command(tool_run, server, monkeypatch):
    server.answer = lambda _: {"email"}
    monkeypatch.delenv("PINLATER_SERVERS")
    address = str(server.address)
    assert tool_run("--server", address, "queues") == (0, "email\n", "")
    assert tool_run("queues", "--server", address, "--json") == (0, '["email"]\n', "")
    assert tool_run("--json", "queues", "--server", f"{free_address()},{address}")[:2] == (0, '["email"]\n')


def test_what_a_job_left_in_its_error_does_not_control_the_terminal(tool_run, server):
    server.answer = lambda _: {"email:s1:p1:1": info(state=3, status="\x1b]0;title\x07 no route")}
    assert tool_run("result", "email:s1:p1:1") == (
        1,
        "",
        "pinlater: email:s1:p1:1 failed: \\x1b]0;title\\x07 no route\n",
    )


def test_letters_that_a_terminal_cannot_show_are_escaped(server):
    server.answer = lambda _: {"grün", "\N{LATIN CAPITAL LETTER O WITH MACRON}su"}
    words = [sys.executable, "-m", "pinlater.cli", "queues"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, encoding="latin-1", check=False)
    assert (done.returncode, done.stdout) == (0, "grün\n\\u014csu\n")


def test_streams_that_are_closed_are_left_alone(server):
    server.answer = lambda _: 0
    words = ["-m", "pinlater.cli", "retry-failed", "email", "--priority", "1"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0 jobs retried\n")
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, *words], check=False)
    assert closed.returncode == 0
