"""Shell completion: ``pinlater completion``, and completion of queue names."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from pinlater.cli.command import Session, command

_SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    common=(),
    examples="""
    pinlater completion fish > ~/.config/fish/completions/pinlater.fish
    eval "$(pinlater completion bash)"                                     # in ~/.bashrc
    eval "$(pinlater completion zsh)"                                      # in ~/.zshrc
    """,
)
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(_: Session, /, *, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options, states and queue names. Queue names come from the server of --server or
    PINLATER_SERVERS, if it answers within a second.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.get_current_context().find_root().command, {}, "pinlater", "_PINLATER_COMPLETE").source())


def complete_queues(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return queue names that begin with ``incomplete``; none if the server does not answer quickly."""
    session = context.find_object(Session) or Session()
    return [CompletionItem(name) for name in session.known_queues() if name.startswith(incomplete)]


def complete_states(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return state names that begin with ``incomplete``."""
    from pinlater.model.state import JobState

    names = (state.name.lower().replace("_", "-") for state in JobState)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
