"""Commands of ``manage.py``, each in a module of its name."""
