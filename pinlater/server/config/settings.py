"""The server's settings: each declared once, with its key, its kind, its default and what it is for.

Sources, each over the one before: defaults, the file of ``--config``, the environment (``PINLATER_`` + key),
options. A file may write the keys with the prefix too, so that it serves systemd's ``EnvironmentFile=``.
An empty value means the default. Keys are those of the original service; keys of its that have no meaning here
are accepted and reported, so that an old properties file works. In a file or an option an unknown key is an
error; in the environment, where other programs have variables too, one that looks like a slip of the pen is
reported and the others are left alone.
"""
# ruff: noqa: RUF009 - the calls in the class body declare the fields, and their values are immutable

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pinlater.server.config import values

T = TypeVar("T")

MINUTE, HOUR = 60.0, 3600.0

IGNORED_KEYS = frozenset(
    {
        "BACKEND_CONNECTION_MAX_WAIT_MILLIS",
        "BACKEND_DEQUEUE_CONCURRENCY_PER_QUEUE_PER_SHARD",
        "BACKEND_NUM_AUTO_RETRIES",
        "BACKEND_QUERY_PARALLELISM",
        "BACKEND_SOCKET_TIMEOUT_SECONDS",
        "MONITOR_CONNECTIONS_PER_SHARD",
        "MONITOR_LOG_INTERVAL",
        "MONITOR_SOCKET_TIMEOUT_SECONDS",
        "REDIS_HEALTH_CHECK_CONSECUTIVE_FAILURES",
        "REDIS_HEALTH_CHECK_CONSECUTIVE_SUCCESSES",
        "REDIS_HEALTH_CHECK_PING_INTERVAL_SECONDS",
    }
)
"""Keys of the original service for things that this one does not have."""

SHARD_KEYS = IGNORED_KEYS | {
    "BACKEND_CONFIG",
    "BACKEND_CONNECTIONS_PER_SHARD",
    "MYSQL_COUNT_LIMIT",
    "MYSQL_DATABASE_PREFIX",
    "MYSQL_NUM_DB_PER_QUEUE",
    "SHARD_ALLOWED_HOSTNAME_PREFIX",
}
"""Keys that mean a store of shards. The original service took MySQL where a file had them and no PINLATER_BACKEND."""

SECRET_KEYS = frozenset({"ADMIN_PASSWORD_HASH", "READER_PASSWORD_HASH"})
"""Not printed, neither with the settings nor in an error: someone may have put the password itself there."""


class Declaration(NamedTuple):
    """One line of the table of settings."""

    name: str
    key: str
    read: Callable[[str], Any]
    default: str
    help: str
    aliases: tuple[str, ...]


def _setting(key: str, read: Callable[[str], T], default: str, help_text: str, *aliases: str) -> T:
    declared = Declaration("", key, read, default, help_text, aliases)
    return field(default=read(default), repr=key not in SECRET_KEYS, metadata={"declared": declared})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, typed; times are in the unit of the attribute's name, whatever the key's unit."""

    thrift_host: str = _setting("THRIFT_HOST", values.text, "127.0.0.1", "address the service listens on")
    thrift_port: int = _setting("THRIFT_PORT", values.integer(0, 65535), "9010", "its port; 0 takes any free one")
    tls_certificate: Path | None = _setting(
        "THRIFT_TLS_CERT", values.optional_path, "", "PEM file of the service's certificate: its port speaks TLS alone"
    )
    tls_key: Path | None = _setting(
        "THRIFT_TLS_KEY", values.optional_path, "", "PEM file of the certificate's key; empty: the same file"
    )
    tls_client_ca: Path | None = _setting(
        "THRIFT_TLS_CLIENT_CA", values.optional_path, "", "PEM file: only clients with a certificate by these are taken"
    )
    allow_plain: bool = _setting(
        "THRIFT_ALLOW_PLAIN", values.yes_or_no, "false", "listen without TLS also where other machines can connect"
    )
    unix_socket: Path | None = _setting(
        "THRIFT_UNIX_SOCKET",
        values.optional_path,
        "",
        "path of a socket where the service listens, too; never with TLS",
    )
    admin_host: str = _setting(
        "ADMIN_HOST", values.text, "127.0.0.1", "address of dashboard, metrics and health checks"
    )
    admin_port: int = _setting(
        "OSTRICH_PORT", values.integer(0, 65535), "9999", "their port; 0 takes any free one", "ADMIN_PORT"
    )
    server_processes: int = _setting(
        "SERVER_PROCESSES", values.integer(1, 64), "1", "processes that share the service's port; with sqlite, 1"
    )
    backend: str = _setting("PINLATER_BACKEND", values.choice("sqlite", "mysql", "redis"), "sqlite", "the store")
    shards_file: Path | None = _setting(
        "BACKEND_CONFIG",
        values.optional_path,
        "",
        "JSON file of the shards, for every store but sqlite; read again when it changes",
    )
    shard_prefix: str = _setting(
        "SHARD_ALLOWED_HOSTNAME_PREFIX",
        values.text,
        "",
        "mysql: keys of BACKEND_CONFIG that begin so are shards, others are ignored; empty: all are",
    )
    databases_per_shard: int = _setting(
        "MYSQL_NUM_DB_PER_QUEUE", values.integer(1, 100), "1", "mysql: shards, each a database, that an entry has"
    )
    database_prefix: str = _setting(
        "MYSQL_DATABASE_PREFIX", values.identifier, "pinlater_", "mysql: stands before a shard's name: its database"
    )
    connections_per_server: int = _setting(
        "BACKEND_CONNECTIONS_PER_SHARD", values.integer(2, 1000), "10", "mysql: connections to one database server"
    )
    data_dir: Path = _setting(
        "DATA_DIR", values.path, "~/.local/share/pinlater", "directory of the store; $XDG_DATA_HOME is respected"
    )
    sqlite_synchronous: str = _setting(
        "SQLITE_SYNCHRONOUS",
        values.choice("FULL", "NORMAL"),
        "FULL",
        "FULL: what was answered survives a power cut; NORMAL: the last moments may be lost in one, but it is faster",
    )
    priority_levels: int = _setting("NUM_PRIORITY_LEVELS", values.integer(1, 127), "3", "priorities are 1 to this")
    max_concurrent_requests: int = _setting(
        "MAX_CONCURRENT_REQUESTS", values.integer(1), "5000", "calls in the works at once; further ones wait"
    )
    max_connections: int = _setting("MAX_CONNECTIONS", values.integer(1), "10000", "client connections at once")
    max_connections_per_address: int = _setting(
        "MAX_CONNECTIONS_PER_ADDRESS", values.integer(1), "5000", "of one client address"
    )
    max_requests_per_address: int = _setting(
        "MAX_CONCURRENT_REQUESTS_PER_ADDRESS",
        values.integer(1),
        "2500",
        "calls of one client address in the works at once; further ones wait",
    )
    max_store_waiting: int = _setting(
        "MAX_STORE_WAITING",
        values.integer(1),
        "2000",
        "above so many requests that the store has not done, dequeues are refused; above twice that, enqueues too",
    )
    max_idle_seconds: float = _setting(
        "SERVER_CONN_MAX_IDLE_TIME_MINUTES", values.amount(MINUTE), "5", "a connection idle for so long is closed"
    )
    partial_frame_timeout_seconds: float = _setting(
        "PARTIAL_FRAME_TIMEOUT_SECONDS", values.amount(), "30", "a call that began must be complete after this time"
    )
    max_frame_bytes: int = _setting("MAX_FRAME_BYTES", values.integer(1024, 2**31 - 1), "16384000", "size of a call")
    max_body_bytes: int = _setting("MAX_BODY_BYTES", values.integer(1), "1048576", "size of a job's body")
    claim_timeout_seconds: float = _setting(
        "BACKEND_MONITOR_JOB_CLAIMED_TIMEOUT_SECONDS",
        values.amount(),
        "180",
        "a claimed job that is not acked in this time goes back, unless its claim asked for another time",
    )
    max_claim_timeout_seconds: float = _setting(
        "MAX_CLAIM_TIMEOUT_SECONDS", values.amount(), "86400", "longest time a claim may ask for"
    )
    succeeded_ttl_seconds: float = _setting(
        "BACKEND_MONITOR_JOB_SUCCEEDED_GC_TTL_HOURS", values.amount(HOUR), "24", "succeeded jobs are kept so long"
    )
    failed_ttl_seconds: float = _setting(
        "BACKEND_MONITOR_JOB_FAILED_GC_TTL_HOURS", values.amount(HOUR), "168", "failed jobs are kept so long"
    )
    idempotency_ttl_seconds: float = _setting(
        "IDEMPOTENCY_TTL_SECONDS",
        values.amount(),
        "600",
        "results of enqueues, imports, retries and deletions are kept so long, for calls that are sent again",
    )
    monitor_interval_seconds: float = _setting(
        "BACKEND_MONITOR_THREAD_DELAY_SECONDS", values.amount(), "1", "time between two looks for expired claims"
    )
    monitor_batch_size: int = _setting(
        "BACKEND_MONITOR_UPDATE_MAX_SIZE", values.integer(1), "1000", "jobs in one step of the monitor"
    )
    queue_auto_create: bool = _setting(
        "QUEUE_AUTO_CREATE",
        values.yes_or_no,
        "true",
        "the first jobs of a queue create it; false: an enqueue to a queue that was not created is refused",
    )
    count_limit: int = _setting(
        "COUNT_LIMIT", values.integer(1), "100000", "getJobCount counts no further than this", "MYSQL_COUNT_LIMIT"
    )
    max_wait_ms: int = _setting("MAX_WAIT_MILLIS", values.integer(0), "60000", "longest time a dequeue may wait")
    regex_timeout_seconds: float = _setting(
        "REGEX_TIMEOUT_SECONDS", values.amount(), "2", "work on one regular expression is given up after this time"
    )
    queue_config_file: Path | None = _setting(
        "QUEUE_CONFIG_FILE_PATH", values.optional_path, "", "JSON file of rate limits; read again when it changes"
    )
    server_set_enabled: bool = _setting(
        "SERVER_SET_ENABLED",
        values.yes_or_no,
        "false",
        "on SQLite, share the rate limits among the servers of the server set; other stores do so by themselves",
    )
    server_set_file: Path | None = _setting(
        "SERVER_SET_PATH", values.optional_path, "", "file of host:port lines; read again when it changes"
    )
    admin_password_hash: str | None = _setting(
        "ADMIN_PASSWORD_HASH",
        values.password_hash,
        "",
        "allows deleteQueue, asked for by the dashboard; made by: pinlater hash-password",
    )
    reader_password_hash: str | None = _setting(
        "READER_PASSWORD_HASH", values.password_hash, "", "a second password: look at the dashboard, change nothing"
    )
    dashboard: bool = _setting(
        "DASHBOARD",
        values.yes_or_no,
        "true",
        "serve it on the admin port, if it is installed: pip install 'pinlater[dashboard]'",
    )
    dashboard_privacy: bool = _setting(
        "DASHBOARD_PRIVACY",
        values.yes_or_no,
        "false",
        "it shows a job's body only when asked to, and logs that; readers can neither see nor search bodies",
    )
    dashboard_base_path: str = _setting(
        "DASHBOARD_BASE_PATH", values.base_path, "", "path that a proxy shows it under, such as /pinlater"
    )
    admin_trusted_proxies: tuple[values.Network, ...] = _setting(
        "ADMIN_TRUSTED_PROXIES",
        values.networks,
        "",
        "addresses of proxies, such as 127.0.0.1,10.0.0.0/8, whose X-Forwarded-For and -Proto are believed",
    )
    admin_tls_cert: Path | None = _setting(
        "ADMIN_TLS_CERT", values.optional_path, "", "PEM file with the certificate of the dashboard; with ADMIN_TLS_KEY"
    )
    admin_tls_key: Path | None = _setting("ADMIN_TLS_KEY", values.optional_path, "", "PEM file with its key")
    admin_allow_plain: bool = _setting(
        "ADMIN_ALLOW_PLAIN",
        values.yes_or_no,
        "false",
        "dashboard beyond this machine without TLS, as behind a TLS proxy",
    )
    admin_open_metrics: bool = _setting(
        "ADMIN_OPEN_METRICS",
        values.yes_or_no,
        "false",
        "/metrics beyond this machine without a session, for Prometheus",
    )
    drain_seconds: float = _setting(
        "DRAIN_SECONDS", values.amount(zero=True), "10", "when stopping, calls in the works may take this long"
    )
    queue_metrics_seconds: float = _setting(
        "QUEUE_METRICS_INTERVAL_SECONDS", values.amount(), "15", "time between two looks at the queues for the metrics"
    )
    log_level: str = _setting(
        "LOG_LEVEL", values.choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "least severe records to log"
    )
    log_format: str = _setting("LOG_FORMAT", values.choice("plain", "json"), "plain", "how log records are written")

    ignored_keys: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def report(self, log: logging.Logger) -> None:
        """Log what loading noticed; apart from loading, which comes before logging can be set up."""
        if self.ignored_keys:
            log.info("settings without a meaning in this version: %s", ", ".join(self.ignored_keys))
        for doubt in self.doubts:
            log.warning("%s", doubt)


DECLARATIONS: tuple[Declaration, ...] = tuple(
    item.metadata["declared"]._replace(name=item.name) for item in dataclasses.fields(Settings) if item.metadata
)


def list_settings() -> str:
    """Return a text for ``--help``: every key with its default and its purpose."""
    width = max(len(declared.key) + len(declared.default) for declared in DECLARATIONS) + 1
    return "\n".join(f"{declared.key + '=' + declared.default:<{width}}  {declared.help}" for declared in DECLARATIONS)
