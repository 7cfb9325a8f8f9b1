"""Writes files of the package into a folder of the user, and never over a file with another content."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from dra.cli.manifests import package_data
from dra.engine.messages.documentation import TREE_URL

NAMED_MAX: Final = 5
"""Maximum number of files that an error names."""

_OUTSIDE_LINK: Final = re.compile(r"\]\((?:\.\./)+((?:docs|deploy|README)[^)]*)\)")
"""A link of an example's page to a file that is not part of the examples."""


def page_text(path: str) -> str:
    """Return the text of a file; in a page, links that leave the examples become addresses."""
    text = package_data.read_text(path)
    return _OUTSIDE_LINK.sub(rf"]({TREE_URL}/\1)", text) if path.endswith(".md") else text


def write(paths: Sequence[str], folder: Path, *, overwrite: bool) -> None:
    """Write files below the folder with their relative paths; raise ClickException before any file is lost."""
    texts = {folder / path: page_text(path) for path in paths}
    lost = [path for path, text in texts.items() if path.exists() and path.read_bytes() != text.encode()]
    if lost and not overwrite:
        named = ", ".join(map(str, lost[:NAMED_MAX])) + (f" and {len(lost) - NAMED_MAX} more" * (len(lost) > NAMED_MAX))
        raise click.ClickException(f"{named}: a file with another content exists; nothing was written. Use --overwrite")
    try:
        for (target, text), path in zip(texts.items(), paths, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            if path.endswith(".sh"):
                target.chmod(target.stat().st_mode | 0o111)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    click.echo(f"{len(paths)} files written to {folder}", err=True)
