"""Server settings: declared once; read from files, the environment and options."""
