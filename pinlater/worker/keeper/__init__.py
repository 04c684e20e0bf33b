"""The process that runs no user code, and looks after the claims of the processes that do."""
