"""A Django app with the table of an outbox, and ``manage.py outbox_relay``, which delivers its jobs.

Put ``"pinlater.outbox.django"`` into ``INSTALLED_APPS`` and run ``manage.py migrate``. Optional settings are
``PINLATER_OUTBOX_TABLE`` (name of the table) and ``PINLATER_SERVERS`` (as in ``Client``).

::

    from pinlater.outbox.django import enqueue

    with transaction.atomic():
        order = Order.objects.create(article="chair")
        enqueue(SendInvoice(order=order.pk), delay=60)
"""

from __future__ import annotations

from typing import Unpack

from pinlater.jobs.enqueue_options import EnqueueOptions
from pinlater.jobs.job import Job
from pinlater.outbox.outbox import DEFAULT_TABLE, Outbox

__all__ = ["enqueue", "outbox"]


def outbox() -> Outbox:
    """Return the outbox of the project."""
    from django.conf import settings

    return Outbox(getattr(settings, "PINLATER_OUTBOX_TABLE", DEFAULT_TABLE))


def enqueue(job: Job, *, using: str | None = None, **options: Unpack[EnqueueOptions]) -> None:
    """Store a job in the current transaction, or commit it at once if there is none.

    Args:
        job: the job.
        using: alias of the database; None: ``"default"``.
        options: those of ``Client.enqueue``, such as ``delay=60``.

    Raises:
        ValueError, TypeError, BodyInvalid: as in ``Client.enqueue``; nothing was stored.
    """
    from django.db import transaction

    outbox().enqueue(transaction.get_connection(using), job, **options)
