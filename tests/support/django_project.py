"""A project of Django, as far as an outbox needs one: settings with one SQLite database."""

import django
from django.conf import settings
from django.db import connections


def set_up():
    """Configure the project, once in a process: models cannot be imported before."""
    if not settings.configured:
        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=["pinlater.outbox.django"],
            USE_TZ=True,
        )
        django.setup()


def use_database(path):
    """Let the project have its data in that file; return its connection."""
    set_up()
    connection = connections["default"]
    connection.close()
    connection.settings_dict["NAME"] = str(path)
    return connection
