"""What ``Outbox`` writes, and into whose transaction."""

import asyncio
import json
import sqlite3

import pytest
import sqlalchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from pinlater import Constant, Job
from pinlater.client.jobs import JobEncoder
from pinlater.errors import BodyInvalid, ConfigError
from pinlater.outbox import Outbox
from pinlater.protocol.stored_jobs import stored_fields, stored_job
from tests.support import spans
from tests.support.django_project import use_database


class SendInvoice(Job, queue="invoices", attempts=5):
    order: int

    def run(self, context):
        pass


def orders(found):
    return [json.loads(body)["order"] for _, body, _ in found]


def test_a_row_has_all_that_the_client_would_send(outbox, connection, rows):
    options = {
        "priority": 3, "run_at": 2e9, "status": "sent by hand", "unique": "7", "unique_for": 60.0, "key": "ada",
        "in_order": True, "backoff": Constant(5), "queue": "others", "attempts": 9,
    }  # fmt: skip
    outbox.enqueue(connection, SendInvoice(order=7), **options)
    connection.commit()
    [(queue, body, fields)] = rows()
    assert queue == "others"
    assert stored_job(body, json.loads(fields)) == JobEncoder(**options).struct(SendInvoice(order=7))


def test_a_job_without_options_is_as_its_class_says(outbox, connection, rows):
    outbox.enqueue(connection, SendInvoice(order=7))
    connection.commit()
    [(queue, body, fields)] = rows()
    assert (queue, json.loads(fields)) == ("invoices", {"numAttemptsAllowed": 5})
    assert json.loads(body) == {"job": "SendInvoice", "order": 7}


def test_nothing_is_committed(outbox, connection, rows):
    outbox.enqueue(connection, SendInvoice(order=7))
    outbox.enqueue_many(connection, [SendInvoice(order=8)])
    assert connection.in_transaction
    assert rows() == []
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM pinlater_outbox").fetchone() == (0,)


def test_many_jobs_keep_their_order(outbox, connection, rows):
    jobs = (SendInvoice(order=n) for n in range(250))
    with pytest.raises(TypeError, match="unique='all' would store one of the jobs only"):
        outbox.enqueue_many(connection, jobs, unique="all")
    assert outbox.enqueue_many(connection, jobs, unique=lambda job: f"{job.order}") == 250
    connection.commit()
    assert orders(rows()) == list(range(250))
    assert json.loads(rows()[249][2])["uniqueKey"] == "249"


def test_many_large_jobs_are_stored_by_several_statements(outbox, connection, rows):
    said = []
    connection.set_trace_callback(said.append)

    class Letter(Job, queue="letters"):
        text: str

        def run(self, context):
            pass

    outbox.enqueue_many(connection, [Letter(text="x" * 600_000)] * 3)
    connection.commit()
    assert len(rows()) == 3
    assert len([text for text in said if text.startswith("INSERT")]) == 3


def test_a_wrong_job_or_option_is_refused_before_anything_is_stored(outbox, connection):
    with pytest.raises(ValueError, match="attempts=0"):
        outbox.enqueue(connection, SendInvoice(order=7), attempts=0)
    with pytest.raises(TypeError, match="did you mean 'delay'"):
        outbox.enqueue(connection, SendInvoice(order=7), dealy=1)
    with pytest.raises(TypeError, match="is no job"):
        outbox.enqueue(connection, "SendInvoice")
    assert not connection.in_transaction


def test_a_session_of_sqlalchemy(outbox, path, rows):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with Session(engine) as session:
        outbox.enqueue(session, SendInvoice(order=1))
        session.rollback()
        outbox.enqueue(session, SendInvoice(order=2))
        session.commit()
    registry = scoped_session(sessionmaker(engine))
    outbox.enqueue(registry, SendInvoice(order=3))
    registry.commit()
    registry.remove()
    with engine.begin() as connection:
        outbox.enqueue(connection, SendInvoice(order=4))
    engine.dispose()
    assert orders(rows()) == [2, 3, 4]


def test_a_connection_of_django(outbox, path, rows):
    from django.db import transaction

    connection = use_database(path)
    with transaction.atomic():
        outbox.enqueue(connection, SendInvoice(order=1))
        transaction.set_rollback(True)
    with transaction.atomic():
        outbox.enqueue(connection, SendInvoice(order=2))
        assert rows() == []
        outbox.enqueue(transaction, SendInvoice(order=3))
    connection.close()
    assert orders(rows()) == [2, 3]


def test_something_else_is_refused_with_what_to_write(outbox):
    with pytest.raises(TypeError, match="object is no connection that an outbox can use; give a connection"):
        outbox.enqueue(object(), SendInvoice(order=1))


def test_an_asynchronous_session_is_told_how(outbox):
    from sqlalchemy.ext.asyncio import AsyncSession

    with pytest.raises(TypeError, match=r"await session.run_sync\(outbox.enqueue, job\)"):
        outbox.enqueue(AsyncSession(), SendInvoice(order=1))


def test_an_asynchronous_connection_is_told_how(outbox):
    import psycopg

    connection = psycopg.AsyncConnection.__new__(psycopg.AsyncConnection)
    with pytest.raises(TypeError, match=r"outbox\.insert"):
        outbox.enqueue(connection, SendInvoice(order=1))


def test_a_function_that_sqlalchemy_runs_for_an_asynchronous_session(outbox, path, rows):
    """``run_sync`` gives it the session it works with; here, that is a plain one."""

    class AsyncSession:
        async def run_sync(self, function, *args, **options):
            with Session(sqlalchemy.create_engine(f"sqlite:///{path}", poolclass=sqlalchemy.NullPool)) as session:
                function(session, *args, **options)
                session.commit()

    asyncio.run(AsyncSession().run_sync(outbox.enqueue, SendInvoice(order=1), delay=60))
    assert orders(rows()) == [1]


@pytest.mark.parametrize(
    ("paramstyle", "values"),
    [("qmark", "(?, ?, ?, ?)"), ("format", "(%s, %s, %s, %s)"), ("numeric_dollar", "($1, $2, $3, $4)")],
)
def test_the_statement_for_drivers_that_are_not_known(outbox, paramstyle, values):
    sql, parameters = outbox.insert(SendInvoice(order=7), database="mariadb", paramstyle=paramstyle, queue="others")
    assert sql == f"INSERT INTO pinlater_outbox (queue, body, options, enqueued_at_ms) VALUES {values}"
    assert parameters[0] == "others"


def test_postgresql_tells_the_relay_unless_it_is_not_to(outbox):
    job = SendInvoice(order=7)
    assert "pg_notify('pinlater_outbox', '')" in outbox.insert(job, database="postgresql")[0]
    assert "notify" not in Outbox(notify=False).insert(job, database="postgresql")[0]


@pytest.mark.parametrize("name", ["a b", "a;b", "a.b.c", "", "x" * 60, "1a"])
def test_a_name_that_is_none_of_a_table(name):
    with pytest.raises(ConfigError, match="letters, digits and underscore"):
        Outbox(name)


def test_the_longest_name_leaves_room_for_the_index_in_63_characters():
    """PostgreSQL cuts longer names, so the index would have the name of its table; MySQL refuses those above 64."""
    name = "x" * 59
    assert f"CREATE INDEX {name}_due ON {name} " in Outbox(name).create_table("postgresql")


@pytest.mark.parametrize("database", ["postgresql", "mysql", "sqlite"])
def test_the_statements_of_the_table_are_those_of_its_sql_one_by_one(database):
    statements = Outbox().table_statements(database)
    assert "".join(f"{statement};\n" for statement in statements) == Outbox().create_table(database)
    assert all(statement.startswith("CREATE ") for statement in statements)


def test_a_driver_that_takes_one_statement_at_a_time_can_create_the_table():
    connection = sqlite3.connect(":memory:")
    for statement in Outbox().table_statements("sqlite"):
        connection.execute(statement)
    Outbox().enqueue(connection, SendInvoice(order=7))
    connection.close()


def test_the_table_may_have_a_schema(tmp_path):
    outbox = Outbox("side.jobs")
    connection = sqlite3.connect(tmp_path / "main.db")
    connection.execute("ATTACH ? AS side", (str(tmp_path / "side.db"),))
    connection.executescript(outbox.create_table("sqlite"))
    outbox.enqueue(connection, SendInvoice(order=7))
    assert connection.execute("SELECT count(*) FROM side.jobs").fetchone() == (1,)
    connection.close()


def test_there_is_no_outbox_in_other_databases(outbox):
    with pytest.raises(ConfigError, match="'oracle' cannot have an outbox; there is one for postgresql, mysql, sqlite"):
        outbox.create_table("oracle")


def test_a_job_of_a_newer_version_is_not_sent_without_what_it_asks_for():
    with pytest.raises(BodyInvalid, match=r"does not know: colour; .*, update the relay"):
        stored_job(b"{}", {"colour": "red"})


def test_fields_that_are_as_the_contract_says_are_not_stored():
    assert stored_fields(stored_job(b"{}", {})) == {}


def test_an_enqueue_is_a_span_whose_context_the_job_carries(connection, rows):
    with spans.exporting() as exporter:
        Outbox(tracing=True).enqueue(connection, SendInvoice(order=7))
        span = spans.named(exporter, "send invoices")
    connection.commit()
    assert f"{span.context.trace_id:032x}" in rows()[0][1].decode()
