"""Reads manifests from files, folders and stdin, as kubectl does for ``-f``."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from dra.cli.kubectl.failures import FailedError

filename_option = click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifest files in YAML or JSON; - reads stdin, a directory stands for the files in it. Can be repeated.",
)
"""``-f``; the command gets as `filenames` what `dra.cli.kubectl.manifests.load_documents` reads."""


class MalformedManifestError(ValueError):
    """A manifest cannot be read; the text names the object."""


def load_documents(paths: Sequence[str]) -> Iterator[Any]:
    """Yield the documents of the files; raise FailedError if a file cannot be read."""
    import yaml  # noqa: PLC0415 - help needs none

    for path in paths:
        for file in _manifest_files(path):
            try:
                text = sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
                yield from _load_bounded(text, path)
            except (OSError, UnicodeDecodeError) as error:
                raise FailedError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
            except yaml.YAMLError as error:
                raise FailedError(f"{path}: not valid YAML: {error}") from error


VALUES_MAX: Final = 1_000_000
"""Maximum number of values in a document, counting an alias's values each time: 1 KB of aliases may make any number."""

LEVELS_MAX: Final = 256
"""Maximum number of levels of maps and lists in a document."""


def _load_bounded(text: str, path: str) -> Iterator[Any]:
    """Yield the documents of a text, each measured before it is constructed."""
    import yaml  # noqa: PLC0415 - help needs none

    made = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _check_nesting(yaml.parse(text, Loader=made), path)
    loader = made(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _check_size(node, path)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _check_nesting(events: Iterable[Any], path: str) -> None:
    """Raise FailedError for deep nesting while the document is still a flat stream: composing recurses, in C."""
    level = 0
    for event in events:
        kind = type(event).__name__
        level += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if level > LEVELS_MAX + 2:  # the stream and the document are two
            raise FailedError(f"{path}: nested more than {LEVELS_MAX} levels deep")


def _check_size(root: Any, path: str) -> None:  # noqa: ANN401 - a node of YAML
    """Raise FailedError for a document that aliases make endless, too large or too deep."""
    sizes: dict[int, tuple[int, int]] = {}
    """Number of values in a node, and of its levels."""

    open_: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        children = _child_nodes(node)
        if done:
            open_.discard(id(node))
            below = [sizes[id(child)] for child in children]
            sizes[id(node)] = (1 + sum(size for size, _ in below), 1 + max((levels for _, levels in below), default=0))
            if sizes[id(node)][0] > VALUES_MAX:
                raise FailedError(f"{path}: its aliases expand to more than {VALUES_MAX:,} values")
            if sizes[id(node)][1] > LEVELS_MAX + 1:
                raise FailedError(f"{path}: nested more than {LEVELS_MAX} levels deep")
        elif id(node) in open_:
            raise FailedError(f"{path}: a YAML alias refers to itself")
        elif id(node) not in sizes:
            open_.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in children]


def _child_nodes(node: Any) -> list[Any]:  # noqa: ANN401 - likewise
    value = node.value
    if not isinstance(value, list):
        return []
    return [part for child in value for part in (child if isinstance(child, tuple) else (child,))]


def _manifest_files(path: str) -> Sequence[Path | None]:
    if path == "-":
        return [None]
    root = Path(path)
    if not root.is_dir():
        return [root]
    return sorted(file for file in root.iterdir() if file.suffix in {".yaml", ".yml", ".json"})


def flatten_lists(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects of documents, with lists flattened; raise MalformedManifestError."""
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, Mapping):
            raise MalformedManifestError(f"a manifest must be an object, not {document!r:.40}")
        if str(document.get("kind", "")).endswith("List") and "items" in document:
            yield from flatten_lists(document["items"] or ())
        else:
            yield dict(document)
