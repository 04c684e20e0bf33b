"""The page of the programs and their options."""

from __future__ import annotations

import inspect
import re
from typing import Any

import click

from pages.markdown import code, page, sentence, table
from pinlater.cli.program import tool
from pinlater.server.program import main as server
from pinlater.worker.install_units import command as install_units
from pinlater.worker.program import worker


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
