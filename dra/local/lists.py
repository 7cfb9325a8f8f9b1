"""Lists: at which revision, which page of them.

The pages of a list show one moment, that of the first page; the token of a page says which moment and where to go on.
When the moment is forgotten, the answer is 410 with a token that goes on in the present.
"""

import base64
from dataclasses import dataclass
from typing import Final

import msgspec

from dra.local import refusals
from dra.local.objects import Object
from dra.local.options import Listing
from dra.local.refusals import Refusal
from dra.local.selection import Selection
from dra.local.store import Expired, Store, Stored

_VERSION: Final = "meta.k8s.io/v1"
_PRESENT: Final = -1
"""The revision in a token that goes on in the present."""


class _Token(msgspec.Struct, frozen=True):
    version: str = msgspec.field(name="v")
    revision: int = msgspec.field(name="rv")
    start: str


@dataclass(frozen=True, slots=True)
class Page:
    """What one answer shows, and the metadata of the list."""

    items: list[Stored]
    meta: Object


def page(store: Store, collection: str, selection: Selection, options: Listing, *, custom: bool) -> Page:
    """Return what a list shows; `options.revision` has been reached. Raises `Refusal` 400 and 410."""
    token = _token(options) if options.token else None
    at = _moment(store, options, token)
    start = _place(token.start, namespace=selection.namespace) if token is not None else None
    try:
        snapshot = store.snapshot(collection, namespace=selection.namespace, at=at)
    except Expired:
        raise _expired(token) from None
    found = snapshot if selection.whole else [each for each in snapshot if each in selection]
    if start is not None:
        found = [each for each in found if (each.key.namespace, each.key.name) > start]
    meta: Object = {"resourceVersion": str(at)}
    if custom:
        meta = {"continue": ""} | meta
    if options.limit and len(found) > options.limit:
        remaining = len(found) - options.limit
        found = found[: options.limit]
        last = found[-1].key
        meta["continue"] = _encoded(at, last.namespace, last.name, namespace=selection.namespace)
        if not selection.selects:
            meta["remainingItemCount"] = remaining
    return Page(found, meta)


def _moment(store: Store, options: Listing, token: _Token | None) -> int:
    if token is not None:
        return store.revision if token.revision == _PRESENT else token.revision
    return options.revision if options.exact and options.revision is not None else store.revision


def _token(options: Listing) -> _Token:
    if options.revision:
        raise refusals.bad_request("specifying resource version is not allowed when using continue")
    raw = options.token + "=" * (-len(options.token) % 4)
    try:
        found = msgspec.json.decode(base64.b64decode(raw, altchars=b"-_", validate=True), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise _invalid(str(error)) from None
    if found.version != _VERSION:
        raise _invalid("server does not recognize this encoded version")
    if found.revision < _PRESENT or found.revision == 0:
        raise _invalid("incorrect encoded start resourceVersion")
    return found


def _invalid(why: str) -> Refusal:
    return refusals.bad_request(f"invalid continue token: continue key is not valid: {why}")


def _encoded(revision: int, *place: str, namespace: str) -> str:
    """Return a token: the key after the last one, below the prefix that the path of the list stands for."""
    last = place[-1:] if namespace else place
    start = "".join(f"/{part}" for part in last if part) + "\0"
    token = msgspec.json.encode(_Token(_VERSION, revision, start))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _place(start: str, *, namespace: str) -> tuple[str, str]:
    """Return namespace and name of the last object that was shown."""
    parts = start.rstrip("\0").lstrip("/").split("/")
    if namespace:
        return namespace, parts[-1]
    return ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _expired(token: _Token | None) -> Refusal:
    if token is None:
        return refusals.expired("The resourceVersion for the provided list is too old.")
    refusal = refusals.expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    inconsistent = msgspec.json.encode(_Token(_VERSION, _PRESENT, token.start))
    refusal.meta = {"continue": base64.urlsafe_b64encode(inconsistent).decode().rstrip("=")}
    return refusal
