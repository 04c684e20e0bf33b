"""Migrations of the app of Django."""
