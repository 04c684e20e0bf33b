"""The page of the server's settings."""

from __future__ import annotations

from pages.markdown import code, page, sentence, table
from pinlater.server.config.settings import DECLARATIONS, IGNORED_KEYS


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
