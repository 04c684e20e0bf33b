"""The table of the outbox as a Django model, so that ``flush`` and tests empty it with all others."""

from __future__ import annotations

from django.db import models

from pinlater.outbox.django import outbox


class OutboxRow(models.Model):  # type: ignore[misc] # Django has no types
    """A job that has not been delivered yet; written by ``enqueue``, and read and deleted by the relay."""

    id = models.BigAutoField(primary_key=True)
    queue = models.CharField(max_length=255)
    body = models.BinaryField()
    options = models.TextField()
    enqueued_at_ms = models.BigIntegerField()
    call_key = models.BinaryField(null=True)
    call_rows = models.IntegerField(null=True)
    retry_at_ms = models.BigIntegerField(default=0)
    refusals = models.IntegerField(default=0)
    error = models.TextField(null=True)  # noqa: DJ001 - there is none before the first refusal

    class Meta:
        """Name of the table; no permissions, since nobody edits its rows."""

        db_table = outbox().table
        default_permissions = ()

    def __str__(self) -> str:
        return f"row {self.pk} for queue {self.queue}"
