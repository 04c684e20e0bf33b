"""Web dashboard for operators. Needs the extra ``dashboard``.

It runs in the admin process of a server, and knows the server only through the Thrift service and the metrics of the
server processes. No job depends on it.
"""
