"""Addresses of the documentation, for texts that are read where there is no checkout."""

from typing import Final

TREE_URL: Final = "https://github.com/dra-reserve/dra-reserve/blob/main"
"""Address of the files of this project; ``[project.urls]`` in pyproject.toml begins likewise."""


def page_url(path: str) -> str:
    """Return the address of a page, whose path is relative to ``docs``."""
    return f"{TREE_URL}/docs/{path}"
