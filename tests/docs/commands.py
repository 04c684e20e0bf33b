"""Console blocks: their commands, what these should write, and what can be said of those that are not run."""

import re
import shlex
from dataclasses import dataclass, field

import click

from pinlater.cli.program import tool
from pinlater.server.program import main as server
from pinlater.worker.install_units import command as install_units
from pinlater.worker.program import worker
from tests.docs.sandbox import STAND_INS
from tests.docs.stand_ins import check as check_stand_in

_OURS = {"pinlater": tool, "pinlater-server": server, "pinlater-worker": worker}
_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"<time>  \S+ \d+(?=\s|$)"), "<time>  <process>"),
    (re.compile(r"\d+\.\d+ s\b"), "<seconds> s"),
    (re.compile(r"\b(pid|INFO|WARNING|ERROR) \d+"), r"\1 <pid>"),
    (re.compile(r"\d+ MB\b"), "<size> MB"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass
class Command:
    """One command and the lines that follow it on the page."""

    text: str
    expected: list[str] = field(default_factory=list)
    as_root: bool = False


def commands(block):
    """Return the commands of a console block; a backslash at the end of a line continues it."""
    found = []
    for line in block.code.splitlines():
        if found and found[-1].text.endswith("\\"):
            found[-1].text = found[-1].text[:-1] + line.strip()
        elif line.startswith(("$ ", "# ")):
            found.append(Command(line[2:], as_root=line.startswith("#")))
        else:
            assert found, f"{block.place}: output without a command"
            found[-1].expected.append(line)
    return found


def assert_output(command, output, place):
    """Assert that the expected lines are in the output."""
    assert is_written(command, output), f"{place}: $ {command.text}\nwrote:\n{output}"


def is_written(command, output):
    """Whether the expected lines are in the output; ``...`` stands for any text or any lines."""
    wanted = [line for line in command.expected if line.strip()]
    parts = [_pattern(line) for line in wanted]
    pattern = "".join(r"(?:.*\n)*?" if part is None else part + r"\n" for part in parts)
    said = "".join(_steady(line) + "\n" for line in output.splitlines() if line.strip())
    return re.search(rf"^{pattern}", said, re.MULTILINE) is not None


def _pattern(line):
    if line.strip() == "...":
        return None
    return ".*".join(re.escape(part) for part in _steady(line).split("..."))


def _steady(line):
    """Take out of a line what differs from run to run."""
    for pattern, name in _VARIABLE:
        line = pattern.sub(name, line)
    return line.strip()


def check(text):
    """Check a command without running it: the program, its subcommand, and the names of its options.

    Raises:
        AssertionError: it could not be run.
    """
    words = shlex.split(text.replace("[", "").replace("]", ""), comments=True)
    words = [word for word in words if not re.fullmatch(r"\w+=\S*", word)] if words and "=" in words[0] else words
    if not words:
        return
    program = words[0].rpartition("/")[2]
    if program in STAND_INS:
        check_stand_in(program, words[1:])
    elif program in _OURS:
        _check_options(_OURS[program], words)


def _check_options(command, words):
    if words[1:2] == ["install-units"]:
        command = install_units
    arguments = words[1:]
    if isinstance(command, click.Group):
        name = next((word for word in arguments if not word.startswith("-")), None)
        assert name is None or name in command.commands, f"{' '.join(words)}: there is no command {name}"
        command = command.commands.get(name, command)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in arguments:
        if word.startswith("-") and len(word) > 1 and not re.fullmatch(r"-\d+", word):
            option = word.partition("=")[0]
            assert option in known | {"--help", "-h", "--version"}, f"{' '.join(words)}: there is no option {option}"
