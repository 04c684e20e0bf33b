"""What all commands share: the options for server, time-out and output, and examples in the help."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.client.servers import ServerSet

COMMON = ("servers", "tls_ca", "tls_cert", "tls_key", "timeout", "as_json")
PATIENCE_SECONDS = 1.0
"""A person waits: that no server is there is said soon, and not after the time for an answer."""

_HURRIED_SECONDS = 1.0
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass(slots=True)
class Session:
    """What the common options say.

    Attributes:
        servers: addresses as given; none is the environment's.
        tls_ca: file of those who vouch for the servers; this and the next two: None is the environment's.
        tls_cert: file of a certificate.
        tls_key: file of its key.
        timeout: seconds for a call.
        as_json: whether output is for programs.
    """

    servers: tuple[str, ...] = ()
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    timeout: float = 10.0
    as_json: bool = False

    def client(self, servers: str | None = None) -> Client:
        """Return a client of the servers that were named, or of others; only now is Thrift loaded: help is quick."""
        from pinlater.client.client import Client

        return Client(self.server_set(servers), timeout=self.timeout, patience=PATIENCE_SECONDS)

    def hurried_client(self) -> Client:
        """Return a client for what is of use within a second, or not at all."""
        from pinlater.client.client import Client

        servers = self.server_set()
        return Client(servers, timeout=_HURRIED_SECONDS, connect_timeout=_HURRIED_SECONDS / 2, retries=0, patience=0)

    def server_set(self, servers: str | None = None) -> ServerSet:
        """Return the servers that were named, or others, with the files for TLS."""
        from pinlater.client.servers import ServerSet
        from pinlater.client.tls import TlsFiles

        files = TlsFiles.from_environment(ca=self.tls_ca, cert=self.tls_cert, key=self.tls_key)
        return ServerSet.of(servers or self.servers or None, files)


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep an option in the session; a command's own wins over the one in front of the command."""
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
            help="Server to use, or unix:/path; several, or separated by commas, stand in for each other.  "
            "[env: PINLATER_SERVERS; default: 127.0.0.1:9010]",
            **shared,
        ),
        *(
            click.Option([option], type=click.Path(), metavar="FILE", help=text, **shared)
            for option, text in (
                ("--tls-ca", "PEM file of those who vouch for tls:// servers.  [env: PINLATER_TLS_CA]"),
                ("--tls-cert", "PEM file of our certificate, where they want one.  [env: PINLATER_TLS_CERT]"),
                ("--tls-key", "PEM file of its key.  [env: PINLATER_TLS_KEY; default: the same file]"),
            )
        ),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Time for one answer, retries included.  [default: 10]",
            **shared,
        ),
        click.Option(
            ["--json", "as_json"], is_flag=True, default=None, help="Print JSON, for other programs.", **shared
        ),
    ]


class Command(click.Command):
    """A command with the common options, in a section of their own, and examples at the end of its help."""

    def __init__(self, *args: Any, examples: str = "", common: Collection[str] = COMMON, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", _SETTINGS)
        super().__init__(*args, **kwargs)
        self._examples = examples
        self._common = [option for option in _common_options() if option.name in common]
        self.params.extend(self._common)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those that all have."""
        for title, is_common in (("Options", False), ("Server and output", True)):
            parameters = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
            options = [each for each in parameters if (each in self._common) is is_common]
            records = [record for each in options if (record := each.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the examples."""
        write_examples(self._examples, formatter)


class Group(click.Group):
    """The program itself."""

    command_class = Command

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", _SETTINGS)
        super().__init__(*args, **kwargs)
        self._examples = examples
        self.params.extend(_common_options())

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Return the commands in the order of their use, not of the alphabet."""
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the examples."""
        write_examples(self._examples, formatter)


def write_examples(text: str, formatter: click.HelpFormatter) -> None:
    """Write examples as they are, one a line."""
    if text:
        with formatter.section("Examples"):
            formatter.write(textwrap.indent(textwrap.dedent(text).strip("\n"), "  ").rstrip() + "\n")


def command(
    name: str, *, examples: str, common: Collection[str] = COMMON
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command; ``common`` are those of the options for server, time-out and JSON that it has."""
    return click.command(name, cls=Command, examples=examples, common=common)


def parse_state(text: str) -> JobState:
    """Return a job state by its name, in any case, with dash or underscore."""
    try:
        return JobState[text.upper().replace("-", "_")]
    except KeyError:
        raise click.BadParameter(f"{text!r} is no state; write pending, in-progress, succeeded or failed.") from None


STATES = "[pending|in-progress|succeeded|failed]"
PRIORITY = click.IntRange(1, 127)
