"""The pages of docs/reference that are written from the code: they say what is so, because it is what is so.

``python -m dra.cli.reference`` writes them (``make docs-reference``), with ``--check`` it only compares; a test does.
"""
