"""The page of what programs that enqueue use, and their tests."""

from __future__ import annotations

import ast
import textwrap

from pages.class_sections import described, read
from pages.markdown import page


def clients() -> str:
    """Return the page of what programs that enqueue use, and their tests."""
    return page(
        "Clients and testing",
        "`Client` and `JobHandle` come from `pinlater`; records such as `JobInfo` from `pinlater.client`. "
        "`AsyncClient` has the same methods, to be awaited.",
        described("client/client", "Client"),
        described("client/base_client", "BaseClient").split("\n\n", 2)[2].replace("### BaseClient.", "### Client."),
        described("jobs/enqueue_options", "EnqueueOptions", level=3),
        described("jobs/enqueue_options", "EnqueueManyOptions", level=3),
        described("jobs/batch", "BatchOutcome", level=3),
        described("client/service_calls", "ServiceCalls")
        .replace("## ServiceCalls\n", "## Other calls of a client\n")
        .replace("### ServiceCalls.", "### Client."),
        described("client/verbs", "Verbs").split("\n\n", 2)[2].replace("### Verbs.", "### Client."),
        described("client/async_client", "AsyncClient", methods=False),
        described("client/handle", "JobHandle"),
        described("client/moving", "Move", methods=False),
        described("model/jobs", "JobInfo"),
        described("model/status", "FailedAttempt"),
        described("model/jobs", "Page"),
        described("model/failure_groups", "FailureGroup"),
        described("model/statistics", "Statistics", methods=False),
        described("client/periodic", "PeriodicJobs"),
        described("client/periodic", "PeriodicJob"),
        described("client/fair_scan", "FairScan", methods=False),
        described("model/queues", "QueueSettings"),
        described("model/workers", "WorkerReport"),
        described("model/workers", "WorkerProcess"),
        described("model/workers", "RunningJob"),
        described("model/workers", "QueueLoad"),
        "## Outbox\n\nBoth are in `pinlater.outbox`; the guide is [Outbox](../guides/outbox.md).",
        described("outbox/outbox", "Outbox", level=3),
        described("outbox/relay", "Relay", level=3),
        "## Errors\n\nAll are in `pinlater.errors`.\n\n```text\n" + tree() + "\n```",
        "## Testing\n\nAll of this is in `pinlater.testing`; the guide is [Testing](../guides/testing.md).",
        described("testing/fake_context", "FakeContext", level=3, methods=False),
        described("testing/inline", "run_inline", level=3),
        described("testing/inline", "InlineClient", level=3),
        described("testing/kills", "killed_everywhere", level=3),
        described("testing/local_server", "LocalServer", level=3),
        described("testing/attempts", "Outcome", level=3),
    )


def tree() -> str:
    """Return the drawing of the tree of errors."""
    docstring = ast.get_docstring(read("errors")) or ""
    return textwrap.dedent(docstring.partition("::\n")[2].partition("\nThe codes")[0]).strip("\n")
