"""One module per page: it reads from the server and renders a template."""
