"""The dashboard: pages for people who look after queues. Needs the extra ``dashboard``.

It runs in the admin process of a server, and knows of it only what the Thrift port and the figures of the server
processes say; so nothing here is in the way of a job.
"""
