"""``pinlater-worker install-units``: installs the systemd units with the paths of this installation."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import click

from pinlater.errors import EXIT_CONFIG, ConfigError

UNIT_DIRECTORY = Path("/etc/systemd/system")
UNITS = ("pinlater-server.service", "pinlater-worker@.service", "pinlater.target")
COMPANIONS = {
    "pinlater.sysusers": Path("/etc/sysusers.d/pinlater.conf"),
    "pinlater.tmpfiles": Path("/etc/tmpfiles.d/pinlater.conf"),
    "server.conf": Path("/etc/pinlater/server.conf"),
    "worker-example.conf": Path("/etc/pinlater/worker-example.conf"),
}
"""Other files that the services need -> where they go."""

_TEMPLATE_PROGRAMS = "/opt/pinlater/bin/"
_PLAIN_PATH = re.compile(r"/[\w./+@-]*", re.ASCII)
_HIDDEN = tuple(map(Path, ("/home", "/root", "/run/user")))

_EXAMPLES = """\b
Examples:
  pinlater-worker install-units --dry-run                    show what would be written
  pinlater-worker install-units                              install, as root
  pinlater-worker install-units --programs /opt/pinlater/bin
  pinlater-worker install-units --directory units            write only the units, for your own package
"""

_NEXT_STEPS = """\
Next, as root:
  systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload
  systemctl enable --now pinlater.target pinlater-server
For each worker: copy /etc/pinlater/worker-example.conf to worker-NAME.conf, edit it, then
  systemctl enable --now pinlater-worker@NAME"""


def install_units(
    directory: Path = UNIT_DIRECTORY, programs: Path | None = None, *, force: bool = False, dry_run: bool = False
) -> list[Path]:
    """Write the units into a directory; return the files written, or with ``dry_run`` those to write.

    Files that are up to date are skipped, so a second call returns nothing.

    Args:
        directory: target directory.
        programs: directory of the programs ``pinlater-server`` and ``pinlater-worker``; None: this installation's.
        force: overwrite units that differ.
        dry_run: check everything, write nothing.

    Raises:
        ConfigError: the units cannot be installed; nothing was written unless writing itself failed.
    """
    return _install({name: directory / name for name in UNITS}, programs, force=force, dry_run=dry_run)


def install_companions(*, root: Path = Path("/"), dry_run: bool = False) -> list[Path]:
    """Write the other files that the units need: users, directories and example settings.

    Existing files are kept: they may have been edited.

    Args:
        root: directory that stands for ``/``.
        dry_run: write nothing.

    Raises:
        ConfigError: a file cannot be written.
    """
    targets = {name: root / path.relative_to("/") for name, path in COMPANIONS.items()}
    missing = {name: target for name, target in targets.items() if not target.exists()}
    return _install(missing, None, force=False, dry_run=dry_run)


def programs_directory() -> Path:
    """Return the directory of this installation's programs.

    Raises:
        ConfigError: it cannot be found.
    """
    # A link to the program, as pipx and uv make them, survives upgrades of its target.
    places = (Path(sys.argv[0]).parent, Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))
    for place in places:
        if (place / "pinlater-server").is_file():
            return place.absolute()
    raise ConfigError("cannot find pinlater-server; give its directory with --programs DIRECTORY")


def templates_directory() -> Path:
    """Return the directory of the files to install: share/pinlater/systemd, or supervisor/systemd in a source tree.

    Raises:
        ConfigError: this installation does not have them.
    """
    for ancestor in Path(__file__).parents:
        for place in (ancestor / "supervisor" / "systemd", ancestor / "share" / "pinlater" / "systemd"):
            if (place / UNITS[0]).is_file():
                return place
    raise ConfigError("this installation has no share/pinlater/systemd; reinstall the package with pip")


def _install(targets: Mapping[str, Path], programs: Path | None, *, force: bool, dry_run: bool) -> list[Path]:
    texts = {target: _rendered(name, programs) for name, target in targets.items()}
    due = {target: text for target, text in texts.items() if _differs(target, text)}
    present = [str(target) for target in due if target.exists()]
    if present and not force:
        raise ConfigError(f"{', '.join(present)}: would be overwritten; compare them, then use --force")
    if not dry_run:
        for target, text in due.items():
            _write(target, text)
    return list(due)


def _rendered(name: str, programs: Path | None) -> str:
    text = (templates_directory() / name).read_text(encoding="utf-8")
    if _TEMPLATE_PROGRAMS not in text:
        return text
    place = f"{programs_directory() if programs is None else programs.absolute()}/"
    if not _PLAIN_PATH.fullmatch(place):
        raise ConfigError(f"{place}: systemd units need a path of letters, digits and ./+@_- only; install elsewhere")
    return text.replace(_TEMPLATE_PROGRAMS, place)


def _differs(target: Path, text: str) -> bool:
    try:
        return target.read_bytes() != text.encode()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise ConfigError(f"cannot read {target}: {error.strerror}") from None


def _write(target: Path, text: str) -> None:
    # Written beside the target and renamed: systemd may read the directory at any moment.
    beside = target.with_name(f".{target.name}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.chmod(0o644)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        hint = "; run as root, or choose another --directory" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"cannot write {target}: {error.strerror}{hint}") from None


@click.command(
    "install-units",
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Write only the units, to this directory.  [default: units to {UNIT_DIRECTORY}, the rest to /etc]",
)
@click.option(
    "--programs",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Directory of pinlater-server and pinlater-worker.  [default: directory of this program]",
)
@click.option("--force", is_flag=True, help="Overwrite units that differ. Settings are never overwritten.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def command(directory: Path | None, programs: Path | None, force: bool, dry_run: bool) -> None:
    """Install the systemd units of server and worker, with the paths of this installation."""
    try:
        written = install_units(directory or UNIT_DIRECTORY, programs, force=force, dry_run=dry_run)
        written += install_companions(dry_run=dry_run) if directory is None else []
        place = programs or programs_directory()
    except ConfigError as error:
        click.echo(f"pinlater-worker install-units: {error}", err=True)
        sys.exit(EXIT_CONFIG)
    for file in written:
        click.echo(f"{'would write' if dry_run else 'wrote'} {file}")
    if not written:
        click.echo("nothing to do: all files are up to date")
    if hidden := hidden_file(place):
        click.echo(
            f"warning: {place} needs {hidden}, which is in a home directory, where the services cannot read; install "
            "PinLater in a virtual environment elsewhere, such as /opt/pinlater, made with a Python outside of home "
            "directories, such as /usr/bin/python3, and run this again from there",
            err=True,
        )
    if directory is None and not dry_run:
        click.echo(_NEXT_STEPS)


def hidden_file(programs: Path) -> Path | None:
    """Return a program in a directory, or the target of its link, that the units' ``ProtectHome=`` hides; or None."""
    files = [programs.absolute() / name for name in ("pinlater-server", "python")]
    places = files + [Path(os.path.realpath(file)) for file in files]
    return next((place for place in places if any(place.is_relative_to(hidden) for hidden in _HIDDEN)), None)
