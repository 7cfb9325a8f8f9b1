"""Manifests: files, folders and stdin, as ``-f`` of kubectl takes them."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dra.cli.kubectl.connection import FailedError


class MalformedManifestError(ValueError):
    """A manifest that cannot be read; the text names the object."""


def documents(paths: Sequence[str]) -> Iterator[Any]:
    """Yield what is in the files; ends the command where one cannot be read."""
    import yaml  # noqa: PLC0415 - help needs none

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in paths:
        for file in _files(path):
            try:
                text = sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
                yield from yaml.load_all(text, Loader=loader)
            except (OSError, UnicodeDecodeError) as error:
                raise FailedError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
            except yaml.YAMLError as error:
                raise FailedError(f"{path}: is no YAML: {error}") from error


def _files(path: str) -> Sequence[Path | None]:
    if path == "-":
        return [None]
    place = Path(path)
    if not place.is_dir():
        return [place]
    return sorted(each for each in place.iterdir() if each.suffix in {".yaml", ".yml", ".json"})


def flat(found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects of documents, those of lists one by one; raises MalformedManifestError."""
    for each in found:
        if each is None:
            continue
        if not isinstance(each, Mapping):
            raise MalformedManifestError(f"a manifest is an object, not {each!r:.40}")
        if str(each.get("kind", "")).endswith("List") and "items" in each:
            yield from flat(each["items"] or ())
        else:
            yield dict(each)
