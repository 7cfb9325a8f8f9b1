"""Migrations on a real API server, with the installed definitions, policies and permissions."""
