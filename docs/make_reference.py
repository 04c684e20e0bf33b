"""Writes the pages of docs/reference/ from the code: settings, options, classes, additions to the wire, metrics.

Run ``make reference`` after a change of any of these; a test fails as long as the pages say something else.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import click
from docstrings import prose, signature

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
sys.path[:0] = [str(ROOT), str(ROOT / "supervisor")]

from pinlater.cli.program import tool  # noqa: E402 - this file is a script, run from anywhere
from pinlater.jobs.options import JobOptions  # noqa: E402
from pinlater.protocol.operations import OPERATIONS  # noqa: E402
from pinlater.server.config.settings import DECLARATIONS, IGNORED_KEYS  # noqa: E402
from pinlater.server.metrics.catalog import Metrics  # noqa: E402
from pinlater.server.metrics.families import CounterSnapshot, DistributionSnapshot  # noqa: E402
from pinlater.server.program import main as server  # noqa: E402
from pinlater.worker.install_units import command as install_units  # noqa: E402
from pinlater.worker.program import worker  # noqa: E402

NOTE = "<!-- Made from the code by `make reference`; changes belong there. -->\n"


def page(title: str, intro: str, *parts: str) -> str:
    """Return a page of the reference."""
    return "\n\n".join([f"{NOTE}\n# {title}", intro, *(part.strip("\n") for part in parts)]) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; bars within its cells are escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Return a text in the type of code; nothing for nothing."""
    return f"`{text}`" if text else ""


# Settings


def settings() -> str:
    """Return the page of the server's settings."""
    rows = [
        (
            " or ".join(code(key) for key in (declared.key, *declared.aliases)),
            code(declared.default) or "(empty)",
            sentence(declared.help.replace("mysql: ", "with `PINLATER_BACKEND=mysql`: ")),
        )
        for declared in DECLARATIONS
    ]
    ignored = ", ".join(code(key) for key in sorted(IGNORED_KEYS))
    return page(
        "Settings of the server",
        "Each setting can stand in the file of `--config` (`KEY=VALUE` lines), in the environment (`PINLATER_` + key) "
        "and on the command line (`--set KEY=VALUE`, or an [option of its own](programs.md#pinlater-server)); the last "
        "of these wins. An empty value means the default. `pinlater-server --check` says what is wrong with them.",
        table(("setting", "default", "what it is for"), rows),
        "## Settings of the original service that have no meaning here",
        f"They are accepted, so that an old file works, and named in the log at the start: {ignored}.",
    )


def sentence(text: str) -> str:
    """Return a help text as a sentence."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "]")) else ".")


# Programs


def programs() -> str:
    """Return the page of the programs and their options."""
    return page(
        "The programs",
        "What `--help` says, on one page: [pinlater-server](#pinlater-server), [pinlater-worker](#pinlater-worker), "
        "[pinlater-worker install-units](#pinlater-worker-install-units) and the tool, [pinlater](#pinlater).",
        program("pinlater-server", server),
        program("pinlater-worker", worker),
        program("pinlater-worker install-units", install_units),
        program("pinlater", tool),
        *(program(f"pinlater {name}", command, level=3) for name, command in tool.commands.items()),
    )


def program(name: str, command: click.Command, level: int = 2) -> str:
    """Return the section of a program or of one command of the tool."""
    words = [argument_name(each) for each in command.params if isinstance(each, click.Argument)]
    words += ["COMMAND ..."] if isinstance(command, click.Group) else []
    usage = " ".join([name, "[OPTIONS]", *words])
    is_inner = name.startswith("pinlater ")
    options = [each for each in command.params if isinstance(each, click.Option) and not (is_inner and is_common(each))]
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    parts = [f"{'#' * level} {name}", f"{code(usage)}", text]
    if options:
        parts.append(
            table(("option", "meaning"), [(option_name(each), sentence(option_help(each))) for each in options])
        )
    return "\n\n".join(parts)


def is_common(option: click.Option) -> bool:
    """Whether every command of the tool has this option; it is explained once."""
    return option.name in {each.name for each in tool.params} and option.name in {"servers", "timeout", "as_json"}


def argument_name(argument: click.Argument) -> str:
    """Return what stands for an argument in a usage line."""
    name = argument.metavar or ("|".join(argument.type.choices) if isinstance(argument.type, click.Choice) else "")
    name = name or (argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def option_name(option: click.Option) -> str:
    """Return an option and what stands for its value."""
    names = ", ".join(code(name) for name in option.opts)
    if option.is_flag or option.count:
        return names
    value = option.metavar
    if value is None:
        is_choice = isinstance(option.type, click.Choice)
        value = "|".join(map(str, option.type.choices)) if is_choice else numbers(option.type)
    return f"{names[:-1]} {value}`"


def numbers(kind: Any) -> str:
    """Return the name of a kind of value, with the range of a number."""
    if isinstance(kind, click.IntRange | click.FloatRange):
        low, high = kind.min, kind.max
        return f"{low}..{high}" if high is not None else f"N>={low}" if low is not None else "N"
    return kind.name.upper()


def option_help(option: click.Option) -> str:
    """Return an option's help, with its default where click would show it."""
    text = option.help or ""
    if option.show_default and option.default is not None and option.default is not False:
        text += f"  [default: {option.default}]"
    return re.sub(r"\s+\[", " [", text)


# Classes


def read(module: str) -> ast.Module:
    """Return the syntax of a module of this project."""
    return ast.parse((ROOT / "pinlater" / f"{module}.py").read_text(encoding="utf-8"))


def found(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """Return a class or function of a module."""
    for node in read(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module} has no {name}")


def described(
    module: str, name: str, *, level: int = 2, methods: bool = True, base: tuple[str, str] | None = None
) -> str:
    """Return the section of a class or function: its docstring, then its public methods and properties.

    ``base`` is the module and name of a class above it, whose methods are shown as its own.
    """
    node = found(module, name)
    parts = [f"{'#' * level} {name}"]
    if isinstance(node, ast.FunctionDef):
        parts.append(code(name + signature(node)))
    parts.append(prose(ast.get_docstring(node) or ""))
    if isinstance(node, ast.ClassDef) and methods:
        bodies = [*node.body, *(found(*base).body if base else ())]
        members = [each for each in bodies if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        parts += [member(each, name, level + 1) for each in members if is_shown(each)]
    return "\n\n".join(parts)


def is_shown(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method is for users: it has a docstring, and no underscore."""
    overload = any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)
    return not node.name.startswith("_") and not overload and ast.get_docstring(node) is not None


def member(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, level: int) -> str:
    """Return the section of a method or property."""
    is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)
    declared = f": {ast.unparse(node.returns)}" if is_property and node.returns else signature(node)
    heading = f"{'#' * level} {owner}.{node.name}"
    return "\n\n".join([heading, code(node.name + declared), prose(ast.get_docstring(node) or "")])


def option_rows() -> list[tuple[str, str, str]]:
    """Return the options of a job class, with their defaults and what the docstring says of each."""
    meanings = dict(re.findall(r"^\* `(\w+)`: (.*)$", prose(inspect.getdoc(JobOptions) or ""), re.MULTILINE))
    return [(code(each.name), default_of(each), sentence(meanings[each.name])) for each in fields(JobOptions)]


def default_of(option: Field[Any]) -> str:
    """Return the default value of an option."""
    if option.default_factory is not MISSING:
        return code(repr(option.default_factory()))
    return "from the class" if option.default is MISSING else code(repr(option.default))


def jobs() -> str:
    """Return the page of what those who write jobs use."""
    return page(
        "Jobs: classes, options, context",
        "What a module of jobs imports from `pinlater`. Times are in seconds unless a name says otherwise.",
        '## Options of a job class\n\nThey stand in the header: `class Mail(Job, queue="mail", attempts=5)`.',
        table(("option", "default", "meaning"), option_rows()),
        described("jobs/job", "Job"),
        described("jobs/job", "RawJob"),
        described("jobs/context", "JobContext", base=("jobs/step_context", "StepContext")),
        described("jobs/retrying", "retrying"),
        described("jobs/retrying", "timed"),
        described("jobs/saga", "Saga"),
        "## Backoffs",
        *(described("model/backoff", name, level=3, methods=False) for name in ("Constant", "Linear", "Exponential")),
        "## What a job may raise, and meet",
        *(
            described("errors", name, level=3)
            for name in (
                "Retry",
                "Discard",
                "JobTimeout",
                "JobStalled",
                "JobExpired",
                "StepTimeout",
                "StepMismatch",
                "SagaUndone",
                "UndoFailed",
                "JobInterrupted",
                "JobSleeps",
                "JobFailed",
                "JoinTimeout",
                "EventTimeout",
                "EventInvalid",
                "BodyInvalid",
                "BodyTooLarge",
            )
        ),
    )


def clients() -> str:
    """Return the page of what programs that enqueue use, and their tests."""
    return page(
        "Clients and testing",
        "`Client` and `JobHandle` come from `pinlater`; records such as `JobInfo` from `pinlater.client`. "
        "`AsyncClient` has the same methods, to be awaited.",
        described("client/client", "Client"),
        described("client/base_client", "BaseClient").split("\n\n", 2)[2].replace("### BaseClient.", "### Client."),
        described("jobs/enqueue_options", "EnqueueOptions", level=3),
        described("jobs/enqueue_options", "EnqueueManyOptions", level=3),
        described("jobs/batch", "BatchOutcome", level=3),
        described("client/service_calls", "ServiceCalls")
        .replace("## ServiceCalls\n", "## Other calls of a client\n")
        .replace("### ServiceCalls.", "### Client."),
        described("client/verbs", "Verbs").split("\n\n", 2)[2].replace("### Verbs.", "### Client."),
        described("client/async_client", "AsyncClient", methods=False),
        described("client/handle", "JobHandle"),
        described("client/moving", "Move", methods=False),
        described("model/jobs", "JobInfo"),
        described("client/periodic", "PeriodicJobs"),
        described("client/periodic", "PeriodicJob"),
        described("client/fair_scan", "FairScan", methods=False),
        described("model/queues", "QueueSettings"),
        described("model/workers", "WorkerReport"),
        described("model/workers", "WorkerProcess"),
        described("model/workers", "RunningJob"),
        described("model/workers", "QueueLoad"),
        "## Outbox\n\nBoth are in `pinlater.outbox`; the guide is [Outbox](../guides/outbox.md).",
        described("outbox/outbox", "Outbox", level=3),
        described("outbox/relay", "Relay", level=3),
        "## Errors\n\nAll are in `pinlater.errors`.\n\n```text\n" + tree() + "\n```",
        "## Testing\n\nAll of this is in `pinlater.testing`; the guide is [Testing](../guides/testing.md).",
        described("testing/fake_context", "FakeContext", level=3, methods=False),
        described("testing/inline", "run_inline", level=3),
        described("testing/inline", "InlineClient", level=3),
        described("testing/kills", "killed_everywhere", level=3),
        described("testing/local_server", "LocalServer", level=3),
        described("testing/attempts", "Outcome", level=3),
    )


def tree() -> str:
    """Return the drawing of the tree of errors."""
    docstring = ast.get_docstring(read("errors")) or ""
    return textwrap.dedent(docstring.partition("::\n")[2].partition("\nThe codes")[0]).strip("\n")


# The wire


def wire() -> str:
    """Return the page of what was added to the original Thrift contract."""
    source = (ROOT / "pinlater" / "protocol" / "pinlater.thrift").read_text(encoding="utf-8")
    fields, structs = [], []
    for note, name, body in re.findall(
        r"((?:^//[^\n]*\n)*)^struct (\w+) \{\n(.*?)^\}", source, re.MULTILINE | re.DOTALL
    ):
        added = list(additions(body))
        if "// Addition" in note:
            structs.append(
                (code(name), sentence(spoken(note)), "<br>".join(f"`{each[0]}`: {each[1]}" for each in added))
            )
        else:
            fields += [(code(f"{name}.{each[0]}"), each[1], each[2]) for each in added if int(each[3]) >= 100]
    return page(
        "Additions to the wire contract",
        "The service speaks the Thrift contract of the original PinLater, framed, binary protocol. All additions are "
        "optional fields with ids from 100 up, and new methods: a client of the original never notices them, a server "
        "of the original skips them. The whole contract: [pinlater.thrift](../../pinlater/protocol/pinlater.thrift).",
        "## Fields\n\n" + table(("field", "type", "meaning"), fields),
        "## Methods\n\nThose with an idempotency key take one in `RequestContext.idempotencyKey`.\n\n"
        + table(("method", "what it does", "takes", "returns", "key", "addition"), methods(source)),
        "## Their structs\n\n" + table(("struct", "what it is", "fields"), structs),
    )


def methods(source: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each method of the Thrift file: its types there, and what the table of operations says."""
    declared = re.findall(r"^  (\S+(?: \S+>)?) (\w+)\(1: RequestContext context(?:, ([^)]*))?\)", source, re.MULTILINE)
    types = {name: (re.findall(r"\d: (\S+)", arguments), returns) for returns, name, arguments in declared}
    for name, (takes, returns) in types.items():
        row = OPERATIONS[name]
        has_key, is_addition = "yes" if row.has_key else "", "" if row.is_original else "yes"
        yield code(name), prose(row.summary), ", ".join(map(code, takes)), code(returns), has_key, is_addition


def additions(body: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, meaning and id of the fields of a struct."""
    comment = ""
    for line in map(str.strip, body.splitlines()):
        declared = re.fullmatch(r"(\d+): (?:required|optional) (\S+) (\w+)(?: = .*)?,", line)
        if declared:
            yield declared[3], code(declared[2]), sentence(spoken(comment)) if comment else "", declared[1]
        comment = f"{comment}\n{line}" if line.startswith("//") else ""


def spoken(comment: str) -> str:
    """Return the text of a comment."""
    return (
        " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
        .strip()
        .removeprefix("Addition")
        .lstrip(".: ")
    )


# Metrics


def metrics() -> str:
    """Return the page of all metrics."""
    kinds = {CounterSnapshot: "counter", DistributionSnapshot: "histogram"}
    rows = []
    for family in Metrics().snapshot():
        info = family.info
        labels = ", ".join(code(label) for label in info.labels)
        ostrich = " ".join(filter(None, (code(info.ostrich), code(info.ostrich_total))))
        rows.append((code(info.name), kinds.get(type(family), "gauge"), labels, sentence(info.help), ostrich))
    return page(
        "Metrics",
        "The server has them on its admin port: `/metrics` for Prometheus, `/stats.txt` under the names of the "
        "original service. A worker has its own under `/metrics` of `--health`.",
        "## Of the server\n\n" + table(("metric", "kind", "labels", "meaning", "in `/stats.txt`"), rows),
        "## Of a worker\n\n" + table(("metric", "kind", "labels", "meaning"), list(worker_metrics())),
        f"Endings of runs (`ending`): {', '.join(code(each) for each in endings())}.",
    )


def worker_metrics() -> Iterator[tuple[str, str, str, str]]:
    """Yield the metrics of a worker, as its page declares them."""
    source = (ROOT / "pinlater" / "worker" / "metrics.py").read_text(encoding="utf-8")
    heads = re.findall(r'_head\("(\w+)", "(\w+)", "([^"]+)"\)', source)
    for name, kind, help_text in heads:
        labelled = re.search(rf'"{name}", \{{(.*?)\}}', source)
        labels = re.findall(r'"(\w+)":', labelled[1]) if labelled else []
        yield code(name), kind, ", ".join(map(code, labels)), sentence(help_text)


def endings() -> list[str]:
    """Return the words for how a run ends."""
    from pinlater.worker.claim_table.counters import ENDINGS

    return list(ENDINGS)


PAGES = {"settings": settings, "programs": programs, "jobs": jobs, "clients": clients, "wire": wire, "metrics": metrics}


def write(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(exist_ok=True)
    for name, render in PAGES.items():
        (folder / f"{name}.md").write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
