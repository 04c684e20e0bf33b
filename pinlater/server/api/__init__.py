"""The API of the service: validate each call, carry it out, and build its reply."""
