"""Declare each setting of the server once: its key, type, default and description.

Sources, each overriding the one before: defaults, the file of ``--config``, the environment (``PINLATER_`` + key),
options. A file may also use prefixed keys, so that it can serve as systemd's ``EnvironmentFile=``. An empty value means
the default. Keys are those of the original service; its keys that have no meaning here are accepted and logged, so that
an old properties file works. An unknown key is an error in a file or option; in the environment, which other programs
use too, a probable typo is logged and other variables are ignored.
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
"""Keys of the original service that have no meaning here."""

SHARD_KEYS = IGNORED_KEYS | {
    "BACKEND_CONFIG",
    "BACKEND_CONNECTIONS_PER_SHARD",
    "MYSQL_COUNT_LIMIT",
    "MYSQL_DATABASE_PREFIX",
    "MYSQL_NUM_DB_PER_QUEUE",
    "SHARD_ALLOWED_HOSTNAME_PREFIX",
}
"""Keys of sharded stores. The original service used MySQL for a file that has them and no PINLATER_BACKEND."""

SECRET_KEYS = frozenset({"ADMIN_PASSWORD_HASH", "READER_PASSWORD_HASH"})
"""Never printed, neither with the settings nor in an error: someone may have put the password itself there."""


class Declaration(NamedTuple):
    """The declaration of a setting."""

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
    """The parsed settings; times are in the unit of the attribute's name, whatever the key's unit."""

    thrift_host: str = _setting("THRIFT_HOST", values.text, "127.0.0.1", "address that the service listens on")
    thrift_port: int = _setting(
        "THRIFT_PORT", values.integer(0, 65535), "9010", "port of the service; 0 picks a free one"
    )
    tls_certificate: Path | None = _setting(
        "THRIFT_TLS_CERT", values.optional_path, "", "PEM file of the service's certificate; the port then requires TLS"
    )
    tls_key: Path | None = _setting(
        "THRIFT_TLS_KEY",
        values.optional_path,
        "",
        "PEM file of the certificate's key; if empty, it is in THRIFT_TLS_CERT",
    )
    tls_client_ca: Path | None = _setting(
        "THRIFT_TLS_CLIENT_CA", values.optional_path, "", "PEM file of a CA; clients need a certificate issued by it"
    )
    allow_plain: bool = _setting(
        "THRIFT_ALLOW_PLAIN", values.boolean, "false", "allow an address that other machines can reach without TLS"
    )
    unix_socket: Path | None = _setting(
        "THRIFT_UNIX_SOCKET", values.optional_path, "", "path of a Unix socket to listen on as well, without TLS"
    )
    admin_host: str = _setting(
        "ADMIN_HOST", values.text, "127.0.0.1", "address of the dashboard, metrics and health checks"
    )
    admin_port: int = _setting(
        "OSTRICH_PORT",
        values.integer(0, 65535),
        "9999",
        "port of the dashboard, metrics and health checks; 0 picks a free one",
        "ADMIN_PORT",
    )
    server_processes: int = _setting(
        "SERVER_PROCESSES", values.integer(1, 64), "1", "server processes that share the port; must be 1 with sqlite"
    )
    backend: str = _setting(
        "PINLATER_BACKEND",
        values.choice("sqlite", "mysql", "redis"),
        "sqlite",
        "store of the jobs: sqlite, mysql or redis",
    )
    shards_file: Path | None = _setting(
        "BACKEND_CONFIG", values.optional_path, "", "JSON file of the shards of mysql or redis; reloaded on change"
    )
    shard_prefix: str = _setting(
        "SHARD_ALLOWED_HOSTNAME_PREFIX", values.text, "", "mysql: ignore entries of BACKEND_CONFIG without this prefix"
    )
    databases_per_shard: int = _setting(
        "MYSQL_NUM_DB_PER_QUEUE", values.integer(1, 100), "1", "mysql: databases (shards) per entry of BACKEND_CONFIG"
    )
    database_prefix: str = _setting(
        "MYSQL_DATABASE_PREFIX", values.identifier, "pinlater_", "mysql: prefix of the names of the shards' databases"
    )
    connections_per_server: int = _setting(
        "BACKEND_CONNECTIONS_PER_SHARD", values.integer(2, 1000), "10", "mysql: connections to each database server"
    )
    notify_servers: bool = _setting(
        "MYSQL_NOTIFY_SERVERS",
        values.boolean,
        "true",
        "mysql: tell other servers of new jobs, by signed UDP datagrams; if false, they poll for new jobs",
    )
    data_dir: Path = _setting(
        "DATA_DIR", values.path, "~/.local/share/pinlater", "directory of the sqlite file; respects $XDG_DATA_HOME"
    )
    sqlite_synchronous: str = _setting(
        "SQLITE_SYNCHRONOUS",
        values.choice("FULL", "NORMAL"),
        "FULL",
        "NORMAL: faster, but a power failure may lose the last confirmed writes",
    )
    priority_levels: int = _setting(
        "NUM_PRIORITY_LEVELS", values.integer(1, 127), "3", "number of priorities: 1 (the highest) to this"
    )
    max_concurrent_requests: int = _setting(
        "MAX_CONCURRENT_REQUESTS", values.integer(1), "5000", "calls that run at once; further ones wait"
    )
    max_connections: int = _setting(
        "MAX_CONNECTIONS", values.integer(1), "10000", "maximum number of open client connections"
    )
    max_connections_per_address: int = _setting(
        "MAX_CONNECTIONS_PER_ADDRESS",
        values.integer(1),
        "5000",
        "maximum number of open connections from one client address",
    )
    max_requests_per_address: int = _setting(
        "MAX_CONCURRENT_REQUESTS_PER_ADDRESS",
        values.integer(1),
        "2500",
        "calls of one client address that run at once; further ones wait",
    )
    max_store_waiting: int = _setting(
        "MAX_STORE_WAITING",
        values.integer(1),
        "2000",
        "refuse dequeues while more requests than this wait for the store, enqueues at twice as many",
    )
    max_idle_seconds: float = _setting(
        "SERVER_CONN_MAX_IDLE_TIME_MINUTES", values.number(MINUTE), "5", "close a connection that is idle for this long"
    )
    partial_frame_timeout_seconds: float = _setting(
        "PARTIAL_FRAME_TIMEOUT_SECONDS",
        values.number(),
        "30",
        "close a connection if a call or reply stalls for this long",
    )
    max_frame_bytes: int = _setting(
        "MAX_FRAME_BYTES", values.integer(1024, 2**31 - 1), "16384000", "maximum size of a call"
    )
    max_body_bytes: int = _setting("MAX_BODY_BYTES", values.integer(1), "1048576", "maximum size of a job body")
    claim_timeout_seconds: float = _setting(
        "BACKEND_MONITOR_JOB_CLAIMED_TIMEOUT_SECONDS",
        values.number(),
        "180",
        "default lease: a claimed job that is not acked or renewed in this time goes back",
    )
    max_claim_timeout_seconds: float = _setting(
        "MAX_CLAIM_TIMEOUT_SECONDS", values.number(), "86400", "longest lease that a dequeue may ask for"
    )
    succeeded_ttl_seconds: float = _setting(
        "BACKEND_MONITOR_JOB_SUCCEEDED_GC_TTL_HOURS", values.number(HOUR), "24", "how long succeeded jobs are kept"
    )
    failed_ttl_seconds: float = _setting(
        "BACKEND_MONITOR_JOB_FAILED_GC_TTL_HOURS", values.number(HOUR), "168", "how long failed jobs are kept"
    )
    idempotency_ttl_seconds: float = _setting(
        "IDEMPOTENCY_TTL_SECONDS",
        values.number(),
        "600",
        "how long results are kept for calls that are repeated with the same key",
    )
    monitor_interval_seconds: float = _setting(
        "BACKEND_MONITOR_THREAD_DELAY_SECONDS",
        values.number(),
        "1",
        "pause between two runs of the monitor; servers that share a store take turns",
    )
    monitor_batch_size: int = _setting(
        "BACKEND_MONITOR_UPDATE_MAX_SIZE",
        values.integer(1),
        "1000",
        "maximum number of jobs that the monitor handles in one batch",
    )
    queue_auto_create: bool = _setting(
        "QUEUE_AUTO_CREATE",
        values.boolean,
        "true",
        "create a queue when its first jobs are enqueued; if false, such jobs are refused",
    )
    count_limit: int = _setting(
        "COUNT_LIMIT", values.integer(1), "100000", "highest count that getJobCount returns", "MYSQL_COUNT_LIMIT"
    )
    max_wait_ms: int = _setting(
        "MAX_WAIT_MILLIS", values.integer(0), "60000", "longest time that a dequeue may wait for jobs"
    )
    regex_timeout_seconds: float = _setting(
        "REGEX_TIMEOUT_SECONDS", values.number(), "2", "stop a search of job bodies after this time"
    )
    queue_config_file: Path | None = _setting(
        "QUEUE_CONFIG_FILE_PATH", values.optional_path, "", "JSON file of rate limits; reloaded when it changes"
    )
    server_set_enabled: bool = _setting(
        "SERVER_SET_ENABLED",
        values.boolean,
        "false",
        "divide rate limits by the number of servers in SERVER_SET_PATH (only sqlite)",
    )
    server_set_file: Path | None = _setting(
        "SERVER_SET_PATH", values.optional_path, "", "file of the server set, one host:port a line; reloaded on change"
    )
    admin_password_hash: str | None = _setting(
        "ADMIN_PASSWORD_HASH",
        values.password_hash,
        "",
        "hash of the password for the dashboard and deleteQueue; create it with: pinlater hash-password",
    )
    reader_password_hash: str | None = _setting(
        "READER_PASSWORD_HASH", values.password_hash, "", "hash of a second password, for read-only dashboard access"
    )
    dashboard: bool = _setting(
        "DASHBOARD", values.boolean, "true", "serve the dashboard, if installed (pip install 'pinlater[dashboard]')"
    )
    dashboard_privacy: bool = _setting(
        "DASHBOARD_PRIVACY",
        values.boolean,
        "false",
        "show job bodies on request only, log each such request, and hide bodies from read-only users",
    )
    dashboard_base_path: str = _setting(
        "DASHBOARD_BASE_PATH", values.base_path, "", "path under which a proxy serves the dashboard, such as /pinlater"
    )
    admin_trusted_proxies: tuple[values.Network, ...] = _setting(
        "ADMIN_TRUSTED_PROXIES",
        values.networks,
        "",
        "proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, such as 127.0.0.1,10.0.0.0/8",
    )
    admin_tls_cert: Path | None = _setting(
        "ADMIN_TLS_CERT", values.optional_path, "", "PEM file of the dashboard's certificate; requires ADMIN_TLS_KEY"
    )
    admin_tls_key: Path | None = _setting(
        "ADMIN_TLS_KEY", values.optional_path, "", "PEM file of the key of ADMIN_TLS_CERT"
    )
    admin_allow_plain: bool = _setting(
        "ADMIN_ALLOW_PLAIN",
        values.boolean,
        "false",
        "allow other machines to reach the dashboard without TLS, as behind a proxy",
    )
    admin_open_metrics: bool = _setting(
        "ADMIN_OPEN_METRICS", values.boolean, "false", "serve /metrics to other machines without login, for Prometheus"
    )
    drain_seconds: float = _setting(
        "DRAIN_SECONDS", values.number(zero=True), "10", "when stopping, how long calls in progress may take"
    )
    queue_metrics_seconds: float = _setting(
        "QUEUE_METRICS_INTERVAL_SECONDS", values.number(), "15", "time between two samples of the queues for metrics"
    )
    warn_wait_seconds: float = _setting(
        "WARN_WAIT_SECONDS",
        values.number(),
        "600",
        "warn when a due job has waited for this many seconds although workers serve its queue",
    )
    warn_paused_seconds: float = _setting(
        "WARN_PAUSED_SECONDS",
        values.number(),
        "900",
        "warn when a job of a paused queue has waited for this many seconds",
    )
    warn_retrying_jobs: int = _setting(
        "WARN_RETRYING_JOBS",
        values.integer(1),
        "10",
        "warn when this many jobs of a queue have failed and wait for another attempt; ten times as many are critical",
    )
    warn_failed_share: float = _setting(
        "WARN_FAILED_SHARE", values.share, "0.2", "warn when this share of a queue's attempts fails, such as 0.2"
    )
    warn_flood_jobs: int = _setting(
        "WARN_FLOOD_JOBS",
        values.integer(1),
        "100",
        "warn when this many jobs of a queue wait, and most of them have the same key or class",
    )
    warn_store_seconds: float = _setting(
        "WARN_STORE_SECONDS",
        values.number(),
        "0.5",
        "warn when 5 % of the calls to the store take this many seconds or longer; six times as long is critical",
    )
    warn_free_bytes: int = _setting(
        "WARN_FREE_BYTES",
        values.integer(1),
        "200000000",
        "warn when a shard has fewer free bytes than this, or less than 5 %",
    )
    warn_growth_bytes: int = _setting(
        "WARN_GROWTH_BYTES",
        values.integer(1),
        "104857600",
        "warn when a job process has grown by this many bytes, job by job",
    )
    log_level: str = _setting(
        "LOG_LEVEL", values.choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "lowest level to log"
    )
    log_format: str = _setting(
        "LOG_FORMAT", values.choice("plain", "json"), "plain", "format of the log: plain lines, or a JSON object a line"
    )

    ignored_keys: tuple[str, ...] = ()

    def log_notices(self, log: logging.Logger) -> None:
        """Log what was noticed while loading, which happens before logging is configured."""
        if self.ignored_keys:
            log.info("these settings of the original service have no effect: %s", ", ".join(self.ignored_keys))


DECLARATIONS: tuple[Declaration, ...] = tuple(
    item.metadata["declared"]._replace(name=item.name) for item in dataclasses.fields(Settings) if item.metadata
)


def warning_thresholds(settings: Settings) -> dict[str, float]:
    """Return the thresholds from which on to warn, by the keys of their settings."""
    return {one.key: float(getattr(settings, one.name)) for one in DECLARATIONS if one.key.startswith("WARN_")}


def list_settings() -> str:
    """Return the text of ``--list-settings``: each key with its default and description."""
    width = max(len(declared.key) + len(declared.default) for declared in DECLARATIONS) + 1
    return "\n".join(f"{declared.key + '=' + declared.default:<{width}}  {declared.help}" for declared in DECLARATIONS)
