"""Creates the table."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from pinlater.outbox.django import outbox


def create_table(_: Any, schema_editor: Any) -> None:
    """Create the table of the outbox and its index."""
    for statement in outbox().create_table(schema_editor.connection.vendor).split(";\n"):
        if statement:
            schema_editor.execute(statement)


def drop_table(_: Any, schema_editor: Any) -> None:
    """Drop the table, with the jobs that were not delivered."""
    schema_editor.execute(f"DROP TABLE {outbox().table}")


class Migration(migrations.Migration):  # type: ignore[misc] # Django has no types
    """The first version of the table."""

    operations = [migrations.RunPython(create_table, drop_table)]  # noqa: RUF012 - as Django wants it
