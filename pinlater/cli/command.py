"""Common parts of all commands: options for server, timeout and output, and examples in the help."""

from __future__ import annotations

import functools
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.commands_elsewhere import COMMANDS_ELSEWHERE
from pinlater.durations import DURATION, Duration
from pinlater.errors import PinLaterError
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from pinlater.client.async_client import AsyncClient
    from pinlater.client.client import Client
    from pinlater.client.servers import ServerSet

COMMON = ("servers", "tls_ca", "tls_cert", "tls_key", "timeout", "as_json")
WITH_TABLE = (*COMMON, "is_wide")
"""The common options of commands that print a table."""

PATIENCE_SECONDS = 1.0
"""How long calls that were not carried out are retried: briefly, because a person is waiting."""

_HURRIED_SECONDS = 1.0
_CONNECTIONS = 8
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass(slots=True)
class Session:
    """The common options of a command, and clients made from them.

    Attributes:
        servers: addresses of the servers; empty for those of the environment.
        tls_ca: PEM file of trusted certificate authorities; None, here and below, for that of the environment.
        tls_cert: PEM file of the client certificate.
        tls_key: PEM file of its key.
        timeout: timeout of a call in seconds.
        as_json: whether to print JSON.
        is_wide: whether tables are as wide as their texts even on a terminal.
        missing_shards: shards that did not answer a count or a scan of the blocking clients.
    """

    servers: tuple[str, ...] = ()
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    timeout: float = 10.0
    as_json: bool = False
    is_wide: bool = False
    missing_shards: set[str] = field(default_factory=set)

    @property
    def table_width(self) -> int | None:
        """Maximum width of a table in columns; None for no limit: output for programs or a pager is never cut."""
        if self.is_wide or not sys.stdout.isatty():
            return None
        return shutil.get_terminal_size().columns

    def client(self, servers: str | None = None) -> Client:
        """Return a client of ``servers``, or else of the session's. Only this imports Thrift, so help stays fast."""
        from pinlater.cli.noting_client import NotingClient

        return NotingClient(
            self.missing_shards, self.server_set(servers), timeout=self.timeout, patience=PATIENCE_SECONDS
        )

    def async_client(self, servers: ServerSet | None = None) -> AsyncClient:
        """Return an asyncio client of ``servers``, or else of the session's, which makes a few calls at once."""
        from pinlater.client.async_client import AsyncClient

        return AsyncClient(
            servers or self.server_set(), timeout=self.timeout, patience=PATIENCE_SECONDS, connections=_CONNECTIONS
        )

    def known_queues(self) -> list[str]:
        """Return the names of all queues for completions and suggestions; none if no server answers within a second."""
        from pinlater.client.client import Client

        try:
            servers, wait = self.server_set(), _HURRIED_SECONDS
            with Client(servers, timeout=wait, connect_timeout=wait / 2, retries=0, patience=0) as client:
                return sorted(client.queue_names())
        except PinLaterError:
            return []

    def server_set(self, servers: str | None = None) -> ServerSet:
        """Return ``servers``, or else the session's, with the TLS files."""
        from pinlater.client.servers import ServerSet
        from pinlater.client.tls import TlsFiles

        files = TlsFiles.from_environment(ca=self.tls_ca, cert=self.tls_cert, key=self.tls_key)
        return ServerSet.of(servers or self.servers or None, files)


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Store an option in the session; an option after the command overrides one before it."""
    session = context.ensure_object(Session)
    if value not in {None, ()} and parameter.name is not None:
        setattr(session, parameter.name, value)


def _common_options() -> list[click.Option]:
    shared: dict[str, Any] = {"expose_value": False, "callback": _store}
    return [
        click.Option(
            ["--server", "servers"],
            multiple=True,
            metavar="[tls://]HOST:PORT",
            help="Server address, or unix:/path; may be repeated or comma-separated for failover.  "
            "[env: PINLATER_SERVERS; default: 127.0.0.1:9010]",
            **shared,
        ),
        *(
            click.Option([option], type=click.Path(), metavar="FILE", help=text, **shared)
            for option, text in (
                ("--tls-ca", "PEM file of trusted certificate authorities for tls:// servers.  [env: PINLATER_TLS_CA]"),
                (
                    "--tls-cert",
                    "PEM file of the client certificate, if a server requires one.  [env: PINLATER_TLS_CERT]",
                ),
                ("--tls-key", "PEM file of the client key.  [env: PINLATER_TLS_KEY; default: the --tls-cert file]"),
            )
        ),
        click.Option(
            ["--timeout"],
            type=Duration(min=0, min_open=True),
            metavar=DURATION,
            help="Timeout of a call, including retries, such as 30s.  [default: 10s]",
            **shared,
        ),
        click.Option(["--json", "as_json"], is_flag=True, default=None, help="Print JSON.", **shared),
        click.Option(
            ["--wide", "is_wide"],
            is_flag=True,
            default=None,
            help="Print tables in full; on a terminal they are shortened to its width.",
            **shared,
        ),
    ]


class Command(click.Command):
    """A command with the common options in their own section, and examples at the end of its help."""

    def __init__(self, *args: Any, examples: str = "", common: Collection[str] = COMMON, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", _SETTINGS)
        super().__init__(*args, **kwargs)
        self._examples = examples
        self._common = [option for option in _common_options() if option.name in common]
        self.params.extend(self._common)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; errors name this command, and what to write for an option that it does not have."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._explained(error) from None
        except click.BadOptionUsage as error:  # an option without a value: click does not say of which command
            raise click.BadOptionUsage(error.option_name, error.message, ctx) from None

    def _explained(self, error: click.NoSuchOption) -> click.UsageError:
        """Say so if what is given as an option is an argument."""
        name = error.option_name.lstrip("-").replace("-", "_")
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        if all(each.name not in {name, f"{name}s"} for each in arguments):
            return error
        usage = " ".join([f"pinlater {self.name}", *(each.human_readable_name for each in arguments)])
        hint = f"Write it without one: {usage}."
        return click.UsageError(f"No such option {error.option_name!r}. {hint}", error.ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then the common ones."""
        for title, is_common in (("Options", False), ("Server and output", True)):
            parameters = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
            options = [each for each in parameters if (each in self._common) is is_common]
            records = [record for each in options if (record := each.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's API
        """Write the examples."""
        write_examples(self._examples, formatter)


class CommandGroup(click.Group):
    """The ``pinlater`` program with all its commands.

    Args:
        summaries: what each command does; help and completion show that, and import no command for it.
    """

    command_class = Command

    def __init__(self, *args: Any, summaries: Mapping[str, str], examples: str = "", **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", _SETTINGS)
        super().__init__(*args, **kwargs)
        self._summaries = summaries
        self._examples = examples
        self.params.extend(_common_options())

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's API
        """Return the commands in the order of definition, not alphabetically."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's API
        """Write the commands with what they do."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with ``incomplete``."""
        from click.shell_completion import CompletionItem

        names = [each for each in self._summaries if each.startswith(incomplete)]
        commands = [CompletionItem(name, help=self._summaries[name]) for name in names]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for one that other job systems have, say what to use here, not what has a similar name."""
        if args[0] not in self.commands and (instead := COMMANDS_ELSEWHERE.get(args[0])):
            raise click.UsageError(f"No such command {args[0]!r}; {instead}.", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's API
        """Write the examples."""
        write_examples(self._examples, formatter)


def write_examples(text: str, formatter: click.HelpFormatter) -> None:
    """Write examples as they are."""
    if text:
        with formatter.section("Examples"):
            formatter.write(textwrap.indent(textwrap.dedent(text).strip("\n"), "  ").rstrip() + "\n")


def command(
    name: str, *, examples: str, common: Collection[str] = COMMON
) -> Callable[[Callable[..., Any]], click.Command]:
    """Turn a function into a command, which gets the session first; ``common`` names the common options it has."""
    make = click.command(name, cls=Command, examples=examples, common=common)
    return lambda function: make(click.pass_obj(function))


def option_group(
    argument: str, options: Mapping[str, Callable[..., Any]], convert: Callable[[dict[str, Any]], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options to a command, and passes those given, converted, as ``argument``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def collected(*args: Any, **given: Any) -> Any:
            values = {name: given.pop(name) for name in options}
            converted = convert({name: value for name, value in values.items() if value is not None})
            return function(*args, **{argument: converted}, **given)

        for option in reversed(list(options.values())):
            collected = option(collected)
        return collected

    return decorate


def parse_state(text: str) -> JobState:
    """Parse the name of a job state, in any case, with dash or underscore."""
    name = text.upper().replace("-", "_")
    try:
        return JobState[name]
    except KeyError:
        raise click.BadParameter(
            f"{text!r} is not a state; write pending, in-progress, succeeded or failed{_OTHER_STATES.get(name, '')}."
        ) from None


_OTHER_STATES = {
    "CANCELLED": "; cancelled jobs are failed ones",
    "RETRYING": "; for jobs that failed and wait for another attempt, add --retrying to pending",
    "SCHEDULED": "; for jobs that are not due yet, add --future to pending",
}
"""States that tables show, but that are parts of others."""
STATES = "[pending|in-progress|succeeded|failed]"
PRIORITY = click.IntRange(1, 127)
