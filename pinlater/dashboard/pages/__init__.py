"""One module a page: it reads from the server and renders a template."""
