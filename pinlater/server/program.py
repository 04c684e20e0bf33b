"""Run ``pinlater-server``: read options and settings, open the sockets, start the supervisor."""

from __future__ import annotations

import logging
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinlater import __version__
from pinlater.environment import unread_variables
from pinlater.errors import EXIT_UNAVAILABLE, ConfigError, ShardConnectionFailed
from pinlater.logs import report_startup_error
from pinlater.server.config.loader import load_settings
from pinlater.server.config.settings import Settings
from pinlater.server.config.settings import list_settings as settings_table

if TYPE_CHECKING:
    from pinlater_supervisor import Child, Pool

    from pinlater.server.net.certificates import Certificates

_STOP_GRACE_SECONDS = 5.0
_HANG_SECONDS = 30.0

_EXAMPLES = """\b
Examples:
  pinlater-server                                   127.0.0.1:9010, dashboard on port 9999
  pinlater-server --data-dir /var/lib/pinlater --config /etc/pinlater/server.conf
  pinlater-server --set BACKEND_MONITOR_JOB_CLAIMED_TIMEOUT_SECONDS=60 --check
  pinlater-server --list-settings

Settings come from the defaults, then --config (lines of KEY=VALUE), then the environment (PINLATER_ + KEY), then
options; later ones override earlier ones.

Signals: TERM answers the calls in progress and exits; INT exits at once; HUP replaces the processes and reloads the
certificates; USR2 writes the stack of each process to stderr.

\b
Exit status: 0 stopped, 2 wrong usage, 69 address missing, or store unavailable (with --check), 78 wrong settings.
"""


@click.command(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="File of KEY=VALUE settings.")
@click.option("--data-dir", metavar="DIR", help="Directory of the sqlite file (DATA_DIR).")
@click.option("--host", help="Address to listen on (THRIFT_HOST).  [default: 127.0.0.1]")
@click.option("--port", metavar="N", help="Port of the service; 0 picks a free one (THRIFT_PORT).  [default: 9010]")
@click.option("--admin-port", metavar="N", help="Port of the dashboard and metrics (OSTRICH_PORT).  [default: 9999]")
@click.option("--processes", metavar="N", help="Server processes that share the port (SERVER_PROCESSES).  [default: 1]")
@click.option("--set", "more", metavar="KEY=VALUE", multiple=True, help="Any other setting; may be repeated.")
@click.option("--check", is_flag=True, help="Check settings and files, connect to the store, and exit.")
@click.option("--list-settings", is_flag=True, help="List all settings with their defaults, and exit.")
@click.version_option(__version__, prog_name="pinlater-server")
def main(  # noqa: PLR0917 - click calls it
    config_file: Path | None,
    data_dir: str | None,
    host: str | None,
    port: str | None,
    admin_port: str | None,
    processes: str | None,
    more: tuple[str, ...],
    check: bool,
    list_settings: bool,
) -> None:
    """Run the PinLater server, which stores jobs durably and hands them to workers."""
    if list_settings:
        click.echo(settings_table())
        return
    given = {
        "DATA_DIR": data_dir,
        "THRIFT_HOST": host,
        "THRIFT_PORT": port,
        "OSTRICH_PORT": admin_port,
        "SERVER_PROCESSES": processes,
    }
    try:
        options = {key: value for key, value in given.items() if value is not None} | _pairs(more)
        settings = load_settings(config_file, os.environ, options)
        sys.exit(_check(settings) if check else _run(settings))
    except ConfigError as error:
        report_startup_error("pinlater-server", str(error), as_json=_asks_for_json(more) or None)
        sys.exit(error.exit_status)
    except ShardConnectionFailed as error:
        click.echo(f"pinlater-server: the settings are valid, but the store does not answer: {error}", err=True)
        sys.exit(EXIT_UNAVAILABLE)


def _asks_for_json(more: tuple[str, ...]) -> bool:
    """Return whether to log JSON, as far as known when the settings cannot be read."""
    given = [pair.partition("=")[2] for pair in more if pair.startswith("LOG_FORMAT=")]
    return (given or [os.environ.get("PINLATER_LOG_FORMAT", "")])[-1].strip().lower() == "json"


def _pairs(more: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in more)
    for pair in more:
        if "=" not in pair:
            raise ConfigError(f"--set {pair}: is not KEY=VALUE; write --set KEY=VALUE")
    return pairs


def _refuse_exposure(settings: Settings) -> None:
    """Refuse an address that other machines can reach without TLS, unless THRIFT_ALLOW_PLAIN allows it."""
    from pinlater.server.net.listeners import is_exposed

    if settings.tls_certificate is None and not settings.allow_plain and is_exposed(settings.thrift_host):
        raise ConfigError(
            f"THRIFT_HOST={settings.thrift_host} lets other machines connect without encryption or login; "
            "set THRIFT_TLS_CERT, or THRIFT_ALLOW_PLAIN=true if the network is trusted"
        )


def _check(settings: Settings) -> int:
    from pinlater.server.admin.access import check_access
    from pinlater.server.limits.files import RateLimitFiles
    from pinlater.server.limits.rate_limits import RateLimits
    from pinlater.server.net.certificates import admin_certificates_of, certificates_of
    from pinlater.server.store_check import check_store

    if unread := unread_variables(os.environ):
        click.echo(f"pinlater-server: {unread}", err=True)
    _refuse_exposure(settings)
    certificates_of(settings)  # loads them
    RateLimitFiles(settings, RateLimits(), lambda _: None)  # loads them
    check_access(settings)
    admin_certificates_of(settings)
    store = check_store(settings)
    click.echo(
        f"the settings are valid: service on {settings.thrift_host}:{settings.thrift_port}, "
        f"admin on {settings.admin_host}:{settings.admin_port}, store: {store}"
    )
    return 0


def _run(settings: Settings) -> int:
    from pinlater_supervisor import Supervisor, signals

    signals.heed_while_starting()
    from pinlater.server.admin.access import OWN_SOCKET, check_access, has_dashboard
    from pinlater.server.logs import set_up_logs
    from pinlater.server.net.certificates import admin_certificates_of, certificates_of
    from pinlater.server.net.listeners import listen, listen_locally
    from pinlater.server.net.open_files import allow_connections
    from pinlater.server.peer_processes.private_folder import private_folder

    set_up_logs(settings.log_level, settings.log_format)
    log = logging.getLogger("pinlater.server")
    settings.log_notices(log)
    if unread := unread_variables(os.environ):
        log.warning("%s", unread)
    _refuse_exposure(settings)
    check_access(settings)
    settings = replace(settings, max_connections=allow_connections(settings.max_connections))
    certificates, admin_certificates = certificates_of(settings), admin_certificates_of(settings)
    listeners = [listen(settings.thrift_host, settings.thrift_port, key="THRIFT_PORT", option="--port")]
    admin_listener = listen(settings.admin_host, settings.admin_port, key="OSTRICH_PORT", option="--admin-port")

    if settings.unix_socket is not None:
        listeners.append(listen_locally(settings.unix_socket, key="THRIFT_UNIX_SOCKET"))
    drain_seconds = settings.drain_seconds + _STOP_GRACE_SECONDS
    with private_folder() as folder:
        if has_dashboard(settings):
            listeners.append(listen_locally(folder / OWN_SOCKET, key="TMPDIR"))
        server = _server_pool(settings, listeners, certificates, folder)
        admin = _admin_pool(settings, admin_listener, admin_certificates, folder)

        def reload() -> None:
            for loaded in (certificates, admin_certificates):
                if loaded is not None:
                    loaded.reload_if_changed()

        supervisor = Supervisor([server, admin], name="pinlater-server", drain_seconds=drain_seconds, on_reload=reload)
        status = supervisor.run()
    if settings.unix_socket is not None:
        settings.unix_socket.unlink(missing_ok=True)
    return status


# The modules of the pools are imported only in the children, so that the master stays small.


def _server_pool(
    settings: Settings, listeners: list[socket.socket], certificates: Certificates | None, folder: Path
) -> Pool:
    from pinlater_supervisor import Pool

    from pinlater.server.config.kept_contents import KeptContents

    files = (settings.shards_file, settings.queue_config_file, settings.server_set_file)
    kept = KeptContents(file for file in files if file is not None)

    def serve(child: Child) -> int:
        from pinlater.server import process
        from pinlater.server.components import ProcessConfig

        return process.run(child, ProcessConfig(settings, listeners, certificates, folder, child.slot, kept))

    return Pool(
        name="server",
        run=serve,
        size=settings.server_processes,
        most=1 if settings.backend == "sqlite" else None,
        title="pinlater-server",
        hang_seconds=_HANG_SECONDS,
        overlap=settings.backend != "sqlite",  # its file has one owner
    )


def _admin_pool(settings: Settings, listener: socket.socket, certificates: Certificates | None, folder: Path) -> Pool:
    from pinlater_supervisor import Pool

    def serve(child: Child) -> int:
        from pinlater.server.admin import process

        return process.run(child, settings, listener, certificates, folder)

    return Pool(
        name="admin",
        run=serve,
        title="pinlater-server: admin",
        stop_order=1,  # it reports that the server is stopping, until it has stopped
        hang_seconds=_HANG_SECONDS,
        overlap=False,
    )


if __name__ == "__main__":
    main()
