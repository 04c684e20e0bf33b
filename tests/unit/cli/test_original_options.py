"""Command lines of the original client tool become ours, or an error that says what is missing."""

import click
import pytest

from pinlater.cli.original_options import is_original, translate
from pinlater.cli.program import tool


@pytest.mark.parametrize(
    ("original", "ours"),
    [
        ("--mode create --queue q", "create-queue q"),
        ("--host h --port 1 --mode create --queue q", "--server h:1 create-queue q"),
        ("--mode=create --queue=q --port=1", "--server localhost:1 create-queue q"),
        (
            "--mode enqueue --queue q --concurrency 5 --batch_size 3 --num_queries -1 --priority 2",
            "load enqueue q --num-queries -1 --batch-size 3 --concurrency 5 --priority 2",
        ),
        (
            "--mode dequeue --queue q --num_queries 7 --dequeue_success_percent 90",
            "load dequeue q --num-queries 7 --dequeue-success-percent 90",
        ),
        ("--mode check_dequeue --queue q", "dequeue q --dry-run"),
        ("--mode lookup --queue q --job_descriptor q:s1:p1:1", "lookup q:s1:p1:1 --body"),
        ("--mode get_job_count --queue q", "count q --state pending"),
        (
            "--mode get_job_count --queue q --job_state 1 --priority 2 --count_future_jobs false",
            "count q --state in-progress --priority 2",
        ),
        (
            "--mode get_job_count --queue q --job_state 0 --count_future_jobs true",
            "count q --state pending --future",
        ),
        ("--mode get_queue_names", "queues"),
    ],
)
def test_every_mode_has_a_command(original, ours):
    assert is_original(original.split())
    assert translate(original.split()) == ours.split()
    with tool.make_context("pinlater", ours.split()) as context:  # the group takes the words
        name, _, rest = tool.resolve_command(context, context._protected_args + context.args)
        tool.commands[name].make_context(name, rest, parent=context).close()  # and so does the command


@pytest.mark.parametrize(
    ("original", "error"),
    [
        ("--mode create", "--mode create needs --queue"),
        ("--mode drop --queue q", "--mode drop is not a mode of the original tool: create, enqueue"),
        ("--mode create --queue q --colour red", "--colour is not an option of the original tool"),
        ("--mode create --queue", "--queue needs a value"),
        ("--mode get_job_count --queue q --job_state 9", "--job_state 9 is not a state; write one of 0 pending, 1 in"),
    ],
)
def test_what_cannot_be_translated_is_said(original, error):
    with pytest.raises(click.UsageError, match=error):
        translate(original.split())


def test_our_own_command_lines_are_left_alone():
    assert not is_original([])
    assert not is_original(["enqueue", "q", "--", "--mode"])
    assert not is_original(["--json", "queues"])


def test_the_tool_says_what_it_runs_instead(tool_run, monkeypatch):
    monkeypatch.setenv("PINLATER_SERVERS", "127.0.0.1:1")
    status, _, err = tool_run("--mode", "get_queue_names", "--host", "127.0.0.1", "--port", "1")
    assert status == 69
    assert "use instead: pinlater --server 127.0.0.1:1 queues\n" in err
    assert "cannot reach 127.0.0.1:1" in err
