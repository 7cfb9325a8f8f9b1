"""Defines the error that ends a command, apart from all that reads a cluster: help and usage errors need no client."""

import click


class FailedError(click.ClickException):
    """The command could not complete; the text says what remains of its work."""

    exit_code = 2
