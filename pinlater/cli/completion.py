"""Completion in shells: ``pinlater completion``, and the names of queues."""

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
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete names.

    It completes commands, options, states and the names of queues. These are asked of the server of --server or
    PINLATER_SERVERS; without an answer within a second there are none.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "pinlater", "_PINLATER_COMPLETE").source())


def complete_queues(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the queues whose names begin so; none if that cannot be found out quickly."""
    from pinlater.errors import PinLaterError

    session = context.find_object(Session) or Session()
    try:
        with session.hurried_client() as client:
            names = client.queue_names()
    except PinLaterError:
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_states(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the states whose names begin so."""
    from pinlater.model.state import JobState

    names = (state.name.lower().replace("_", "-") for state in JobState)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
