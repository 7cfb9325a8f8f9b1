"""Defines the kinds of the server: names, subresources, defaults, validation, columns."""
