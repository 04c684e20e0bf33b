"""Creates the table."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from pinlater.outbox.django import outbox


def create_table(_: Any, schema_editor: Any) -> None:
    """Create the table of the outbox and its index."""
    for statement in outbox().table_statements(schema_editor.connection.vendor):
        schema_editor.execute(statement)


def drop_table(_: Any, schema_editor: Any) -> None:
    """Drop the table, with the jobs that were not delivered."""
    schema_editor.execute(f"DROP TABLE {outbox().table}")


class Migration(migrations.Migration):  # type: ignore[misc] # Django has no types
    """The first version of the table."""

    operations = [  # noqa: RUF012 - as Django wants it
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(create_table, drop_table)],
            state_operations=[
                migrations.CreateModel(
                    "OutboxRow",
                    [
                        ("id", models.BigAutoField(primary_key=True, serialize=False)),
                        ("queue", models.CharField(max_length=255)),
                        ("body", models.BinaryField()),
                        ("options", models.TextField()),
                        ("enqueued_at_ms", models.BigIntegerField()),
                        ("call_key", models.BinaryField(null=True)),
                        ("call_rows", models.IntegerField(null=True)),
                        ("retry_at_ms", models.BigIntegerField(default=0)),
                        ("refusals", models.IntegerField(default=0)),
                        ("error", models.TextField(null=True)),
                    ],
                    options={"db_table": outbox().table, "default_permissions": ()},
                )
            ],
        )
    ]
