"""Enqueue jobs with a commit of your own database: ``Outbox`` stores them there, ``Relay`` delivers them.

::

    outbox = Outbox()
    with connection.transaction():
        connection.execute("INSERT INTO orders ...")
        outbox.enqueue(connection, SendInvoice(order=42))

``Outbox.create_table`` returns the SQL of the table. ``pinlater outbox-relay URL`` delivers the jobs to a server, each
once. No database driver is imported until you name a database.
"""

from pinlater.outbox.outbox import Outbox
from pinlater.outbox.relay import Relay

__all__ = ["Outbox", "Relay"]
