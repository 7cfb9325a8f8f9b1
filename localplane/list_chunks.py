"""Reads the chunks of a list: at which revision, and from which key.

All chunks of a list show the revision of the first chunk; the continue token of a chunk names this revision and the
key to continue from. When the revision is compacted, the answer is 410 with a token that continues at the latest
revision (an inconsistent list).
"""

import base64
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from localplane import status_errors
from localplane.objects import Object
from localplane.query_options import ListOptions
from localplane.selection_predicate import SelectionPredicate
from localplane.status_errors import StatusError
from localplane.store import CompactedError, Store, StoredObject

_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - the version of a continue token
_LATEST_REVISION: Final = -1
"""Revision in a token that continues at the latest revision."""


class _ContinueToken(msgspec.Struct, frozen=True):
    version: str = msgspec.field(name="v")
    revision: int = msgspec.field(name="rv")
    start: str


@dataclass(frozen=True, slots=True)
class ListChunk:
    """One chunk of a list: its objects and the metadata of the list."""

    items: list[StoredObject]
    meta: Object


def read_chunk(
    store: Store, collection: str, selection: SelectionPredicate, options: ListOptions, *, custom: bool
) -> ListChunk:
    """Return a chunk of a list; the store has reached `options.revision`. Raises `StatusError` 400 and 410."""
    token = _decode_continue(options) if options.continue_token else None
    at = _chunk_revision(store, options, token)
    start = _start_key(token.start, namespace=selection.namespace) if token is not None else None
    try:
        scan = store.scan(collection, namespace=selection.namespace, at=at, after=start)
    except CompactedError:
        raise _expired_continue_token(token) from None
    objects = iter(scan) if selection.is_whole_namespace else (stored for stored in scan if stored in selection)
    selected = [*islice(objects, options.limit or None)]
    meta: Object = {"resourceVersion": str(at)}
    if custom:
        meta = {"continue": ""} | meta
    if options.limit and next(objects, None) is not None:
        last = selected[-1].key
        meta["continue"] = _encode_continue(at, last.namespace, last.name, namespace=selection.namespace)
        if not selection.has_selector:
            meta["remainingItemCount"] = len(scan) - len(selected)
    return ListChunk(selected, meta)


def _chunk_revision(store: Store, options: ListOptions, token: _ContinueToken | None) -> int:
    if token is not None:
        return store.revision if token.revision == _LATEST_REVISION else token.revision
    return options.revision if options.is_exact and options.revision is not None else store.revision


def _decode_continue(options: ListOptions) -> _ContinueToken:
    if options.revision:
        raise status_errors.bad_request("specifying resource version is not allowed when using continue")
    raw = options.continue_token + "=" * (-len(options.continue_token) % 4)
    try:
        token = msgspec.json.decode(base64.b64decode(raw, altchars=b"-_", validate=True), type=_ContinueToken)
    except (ValueError, msgspec.DecodeError) as error:
        raise _invalid_continue_token(str(error)) from None
    if token.version != _TOKEN_VERSION:
        raise _invalid_continue_token("server does not recognize this encoded version")
    if token.revision < _LATEST_REVISION or token.revision == 0:
        raise _invalid_continue_token("incorrect encoded start resourceVersion")
    return token


def _invalid_continue_token(why: str) -> StatusError:
    return status_errors.bad_request(f"invalid continue token: continue key is not valid: {why}")


def _encode_continue(revision: int, *place: str, namespace: str) -> str:
    """Return a continue token: the key after the last object, relative to the prefix of the listed path."""
    last = place[-1:] if namespace else place
    start = "".join(f"/{part}" for part in last if part) + "\0"
    token = msgspec.json.encode(_ContinueToken(_TOKEN_VERSION, revision, start))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _start_key(start: str, *, namespace: str) -> tuple[str, str]:
    """Return namespace and name of the last object of the previous chunk."""
    parts = start.rstrip("\0").lstrip("/").split("/")
    if namespace:
        return namespace, parts[-1]
    return ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _expired_continue_token(token: _ContinueToken | None) -> StatusError:
    if token is None:
        return status_errors.expired("The resourceVersion for the provided list is too old.")
    refusal = status_errors.expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    inconsistent = msgspec.json.encode(_ContinueToken(_TOKEN_VERSION, _LATEST_REVISION, token.start))
    refusal.metadata = {"continue": base64.urlsafe_b64encode(inconsistent).decode().rstrip("=")}
    return refusal
