"""Generates the pages of docs/reference from the code, so that the pages cannot differ from it.

``python -m dra.cli.reference`` writes the pages (``make docs-reference``); with ``--check`` it only compares, as a test
does.
"""
