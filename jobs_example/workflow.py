"""Publish a report in three steps: a small workflow.

This example shows steps. ``context.step`` runs a function and stores its result with the job. When a later step fails
or the process dies, the next attempt gets the stored results and continues where the last one stopped. Results are
small JSON values such as a path, a number or a short list; large data stays in files.
"""

from collections import Counter
from pathlib import Path

from jobs_example.delivery import post
from jobs_example.files import atomic_write
from jobs_example.source_index import STANDARD_LIBRARY, source_files
from pinlater import Exponential, Job, JobContext


class PublishReport(Job, queue="reports", attempts=5, backoff=Exponential(first=0.5, cap=60)):
    """Measure the standard library, write a report, and announce it.

    Attributes:
        report: path of the report to write.
        url: where to announce the report.
        length: number of packages in the report.
    """

    report: str
    url: str
    length: int = 10

    def run(self, context: JobContext) -> None:
        sizes = context.step("measure", measure)
        lines = context.step("write", write, self.report, sizes[: self.length])
        context.step("announce", post, self.url, {"report": self.report, "lines": lines}, key=context.descriptor)


def measure() -> list[tuple[str, int]]:
    """Return the packages and modules of the library with their numbers of lines, largest first."""
    lines: Counter[str] = Counter()
    for path in source_files():
        package = path.relative_to(STANDARD_LIBRARY).parts[0]
        lines[package.removesuffix(".py")] += path.read_bytes().count(b"\n")
    return lines.most_common()


def write(report: str, sizes: list[tuple[str, int]]) -> int:
    """Write the report; return the number of lines of code in the listed packages."""
    rows = [f"| {package} | {lines:,} |" for package, lines in sizes]
    with atomic_write(Path(report)) as temporary:
        temporary.write_text("\n".join(["# The largest packages", "", "| package | lines |", "|---|---:|", *rows, ""]))
    return sum(lines for _, lines in sizes)
