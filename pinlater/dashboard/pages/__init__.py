"""One module a page: it asks the server, and hands a template what to show."""
