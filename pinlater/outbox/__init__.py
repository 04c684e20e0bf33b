"""Jobs that are enqueued with the commit of your own database: ``Outbox`` stores them there, ``Relay`` delivers them.

::

    outbox = Outbox()
    with connection.transaction():
        connection.execute("INSERT INTO orders ...")
        outbox.enqueue(connection, SendInvoice(order=42))

The table is that of ``Outbox.create_table``. ``pinlater outbox-relay URL`` delivers the jobs to a server, each once.
No database driver is imported before you name a database.
"""

from pinlater.outbox.outbox import Outbox
from pinlater.outbox.relay import Relay

__all__ = ["Outbox", "Relay"]
