"""Build a full-text index of the Python standard library: a long job that survives a crash of its process.

This example shows checkpoints. Progress is an ordinary field, and ``context.checkpoint()`` saves the record. The next
attempt starts from the last saved record, so at most the work since then is repeated. Because work may be repeated,
each file has a fixed row: writing it twice leaves one row.
"""

import ast
import io
import sqlite3
import sysconfig
import tokenize
import warnings
from contextlib import closing, suppress
from pathlib import Path

from pinlater import Constant, Job, JobContext

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
EXCLUDED = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
"""Folders of third-party modules, and of the library's own tests, which not every installation has."""
FILES_AT_ONCE = 10
SCHEMA = "CREATE VIRTUAL TABLE IF NOT EXISTS source USING fts5(path, names, comments, code, attempt UNINDEXED)"
INSERT = "INSERT OR REPLACE INTO source (rowid, path, names, comments, code, attempt) VALUES (?, ?, ?, ?, ?, ?)"


class IndexStandardLibrary(Job, queue="source_index", attempts=5, backoff=Constant(0.5), heartbeat=0.25):
    """Index every Python source file of the running interpreter's standard library, except its tests.

    Attributes:
        database: path of the SQLite file that holds the index.
        cursor: number of files that are indexed.
    """

    database: str
    cursor: int = 0

    def run(self, context: JobContext) -> None:
        files = source_files()
        context.log.info("indexing from file %d of %d", self.cursor, len(files))
        with closing(open_index(self.database)) as index:
            while self.cursor < len(files):
                batch = files[self.cursor : self.cursor + FILES_AT_ONCE]
                rows = [(row, *read(path), context.attempt) for row, path in enumerate(batch, start=self.cursor)]
                with index:  # one transaction
                    index.executemany(INSERT, rows)
                self.cursor += len(batch)  # only after the commit
                context.checkpoint()


def source_files() -> list[Path]:
    """Return all files to index, in a stable order."""
    files = STANDARD_LIBRARY.rglob("*.py")
    return sorted(
        path for path in files if EXCLUDED.isdisjoint(path.relative_to(STANDARD_LIBRARY).parts) and path.is_file()
    )


def open_index(database: str) -> sqlite3.Connection:
    """Open the index; create it if it does not exist."""
    index = sqlite3.connect(database, timeout=30)
    index.execute("PRAGMA journal_mode = WAL")
    index.execute(SCHEMA)
    return index


def read(path: Path) -> tuple[str, str, str, str]:
    """Return the path of a file, the names that it defines, its comments, and its text."""
    source = path.read_bytes()
    text = source.decode("utf-8", "replace")
    return str(path.relative_to(STANDARD_LIBRARY)), " ".join(_names(source)), " ".join(_comments(text)), text


def _names(source: bytes) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the files themselves, such as invalid escapes
        try:
            nodes = list(ast.walk(ast.parse(source)))
        except (SyntaxError, ValueError, RecursionError):  # some files are broken on purpose, to test the parser
            return []
    return [node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]


def _comments(text: str) -> list[str]:
    comments: list[str] = []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    with suppress(SyntaxError, tokenize.TokenError):  # broken on purpose; keep the comments before the error
        comments.extend(token.string for token in tokens if token.type == tokenize.COMMENT)
    return comments
