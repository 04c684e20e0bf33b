"""The server's settings: declared once, read from files, environment and options."""
