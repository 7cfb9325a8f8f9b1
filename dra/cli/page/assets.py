"""The files of the page, under a path that changes with their content, so that browsers may keep them."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Final

CONTENT_TYPES: Final = {".mjs": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}

SECURED: Final = "{{assets}}"
"""Placeholder in index.html for the path of the files."""

SIGN_IN: Final = "{{sign-in}}"
"""Placeholder in index.html for the way in which users identify themselves."""


_COMMENT: Final = re.compile(r"([;{]) +// .*$")


class SignIn(StrEnum):
    """The way in which users of the page identify themselves."""

    KEY = "key"  # a key in the fragment of the link
    TOKEN = "token"  # noqa: S105 - a token of the cluster, typed into a form


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the page."""

    content: bytes
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """All files of the page."""

    version: str
    """Hash of all files, part of their path."""

    index: bytes
    files: dict[str, Asset]
    """Path below the version → file."""


def load_assets(sign_in: SignIn = SignIn.KEY) -> Assets:
    """Read the files of the page from the package."""
    root = resources.files("dra.cli.page") / "static"
    files: dict[str, Asset] = {}
    index = ""
    for folder, prefix in ((root, ""), (root / "vendor", "vendor/")):
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            kind = CONTENT_TYPES.get(f".{file.name.rpartition('.')[2]}")
            if file.name == "index.html":
                index = file.read_text(encoding="utf-8")
            elif kind is not None and file.is_file():
                content = file.read_bytes() if prefix else _strip(file.read_text(encoding="utf-8")).encode()
                files[prefix + file.name] = Asset(content, kind)
    digest = hashlib.sha256()
    for name, asset in sorted(files.items()):
        digest.update(name.encode() + b"\0" + asset.content)
    version = digest.hexdigest()[:12]
    index = index.replace(SECURED, f"assets/{version}").replace(SIGN_IN, sign_in.value)
    return Assets(version=version, index=index.encode(), files=files)


def _strip(text: str) -> str:
    """Return a file of the page without comments and indentation, which browsers do not need.

    In the templates of htm, white space around a line break means nothing either. A comment behind code is one only
    after a semicolon or a brace that ends a statement.
    """
    lines = (_COMMENT.sub(r"\1", line.strip()) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))
