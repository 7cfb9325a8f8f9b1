"""What a request asks for besides its object: the query parameters, read and checked as upstream does.

A number that is none is 400; a combination that makes no sense is 422, as if the options were an object.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from dra.local import refusals
from dra.local.kinds import causes
from dra.local.kinds.subresource import Deletion
from dra.local.objects import Object
from dra.local.patches.bodies import Validation
from dra.local.refusals import Cause

Query = Mapping[str, str]

_META_GROUP: Final = "meta.k8s.io"
_EXACT: Final = "Exact"
_NOT_OLDER: Final = "NotOlderThan"
_MANAGER_LENGTH: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """ListOptions."""

    labels: str = ""
    fields: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    revision: int | None = None
    """None: the newest; 0: any."""
    exact: bool = False
    timeout: float | None = None
    limit: int = 0
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """CreateOptions, UpdateOptions, PatchOptions."""

    dry_run: bool = False
    manager: str = ""
    validation: Validation = Validation.WARN
    force: bool = False
    apply: bool = False
    """Whether it is server-side apply."""


def listing(query: Query, *, resource: str) -> Listing:
    """Return the options of a list or a watch; raises `Refusal`."""
    watch = boolean(query, "watch") or False
    initial = boolean(query, "sendInitialEvents")
    match, text, token = (query.get(name, "") for name in ("resourceVersionMatch", "resourceVersion", "continue"))
    found = _watch_faults(match, initial, token) if watch else _list_faults(match, text, initial, token)
    _refuse("ListOptions", found)
    limit = integer(query, "limit") or 0
    revision = _revision(text, resource=resource if watch else "")
    return Listing(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        watch=watch,
        bookmarks=boolean(query, "allowWatchBookmarks") or False,
        initial_events=initial,
        revision=revision,
        exact=bool(revision) and (match == _EXACT or (not match and limit > 0)),
        timeout=integer(query, "timeoutSeconds"),
        limit=max(0, limit),
        token=token,
    )


def _list_faults(match: str, revision: str, initial: bool | None, token: str) -> list[Cause]:  # noqa: FBT001 - three-valued
    found, path = [], "resourceVersionMatch"
    if match:
        if not revision:
            found.append(causes.forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
        if token:
            found.append(causes.forbidden(path, f"{path} is forbidden when continue is provided"))
        if match not in (_EXACT, _NOT_OLDER):
            found.append(causes.unsupported(path, match, (_EXACT, _NOT_OLDER, "")))
        if match == _EXACT and revision == "0":
            found.append(causes.forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
    if initial is not None:
        found.append(causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _watch_faults(match: str, initial: bool | None, token: str) -> list[Cause]:  # noqa: FBT001 - three-valued
    found, path = [], "resourceVersionMatch"
    if initial is not None and match != _NOT_OLDER:
        found.append(causes.forbidden(path, f"sendInitialEvents requires setting {path} to {_NOT_OLDER}"))
    if match:
        if initial is None:
            found.append(causes.forbidden(path, f"{path} is forbidden for watch unless sendInitialEvents is provided"))
        if match != _NOT_OLDER:
            found.append(causes.unsupported(path, match, (_NOT_OLDER,)))
        if token:
            found.append(causes.forbidden(path, f"{path} is forbidden when continue is provided"))
    return found


def revision(text: str) -> int | None:
    """Return a resourceVersion of a GET or a list; raises `Refusal` 400 for garbage."""
    return _revision(text, resource="")


def _revision(text: str, *, resource: str) -> int | None:
    if not text:
        return None
    if re.fullmatch(r"[0-9]+", text) is None:
        fault = "invalid syntax"
    elif int(text) >= 1 << 64:
        fault = "value out of range"
    else:
        return int(text)
    detail = f"strconv.ParseUint: parsing {causes.shown(text)}: {fault}"
    cause = causes.invalid("resourceVersion", text, detail)
    if resource:  # a watch
        name, _, group = resource.partition(".")
        raise refusals.invalid(name, group, "", [cause])
    raise refusals.bad_request(f"invalid resource version: {cause.field}: {cause.message}")


def writing(query: Query, *, verb: str, apply: bool | None = None) -> Writing:
    """Return the options of a write; `verb` is ``Create``, ``Update`` or ``Patch``. Raises `Refusal` 422.

    Of a patch, `apply` is whether it is server-side apply.
    """
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    found = _dry_run_faults(query)
    if len(manager) > _MANAGER_LENGTH:
        found.append(causes.too_long("fieldManager", _MANAGER_LENGTH))
    if not manager.isprintable():
        found.append(causes.invalid("fieldManager", manager, "should only contain printable characters"))
    if validation and validation not in tuple(Validation):
        found.append(causes.unsupported("fieldValidation", validation, ("", *Validation)))
    if apply and not manager:
        found.append(causes.required("fieldManager", "is required for apply patch"))
    if apply is False and "force" in query:
        found.append(causes.forbidden("force", "may not be specified for non-apply patch"))
    _refuse(f"{verb}Options", found)
    return Writing(
        dry_run=bool(query.get("dryRun")),
        manager=manager,
        validation=Validation(validation or Validation.WARN),
        force=boolean(query, "force") or False,
        apply=apply or False,
    )


_POLICIES: Final = ("Background", "Foreground", "Orphan")


def deletion(query: Query, body: Object) -> tuple[Deletion, bool]:
    """Return DeleteOptions, of the body or of the query, and whether nothing shall happen; raises `Refusal`."""
    if not body:
        seconds, orphan = integer(query, "gracePeriodSeconds"), boolean(query, "orphanDependents")
        policy, dry_run = query.get("propagationPolicy"), bool(query.get("dryRun"))
        _refuse("DeleteOptions", _dry_run_faults(query) + _policy_faults(policy, orphan))
        return Deletion(grace_seconds=seconds, propagation=policy, orphan=orphan), dry_run
    try:
        given = msgspec.convert(body, _DeleteOptions)
    except msgspec.ValidationError as error:
        raise refusals.bad_request(f"DeleteOptions cannot be handled: {error}") from None
    wanted = given.preconditions or _Preconditions()
    found = [causes.unsupported("dryRun", given.dryRun, ("All",))] if set(given.dryRun or ()) - {"All"} else []
    _refuse("DeleteOptions", found + _policy_faults(given.propagationPolicy, given.orphanDependents))
    asked = Deletion(
        grace_seconds=given.gracePeriodSeconds,
        propagation=given.propagationPolicy,
        orphan=given.orphanDependents,
        uid=wanted.uid,
        revision=wanted.resourceVersion,
    )
    return asked, bool(given.dryRun) or bool(query.get("dryRun"))


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - the API's own names, as below


class _DeleteOptions(msgspec.Struct):
    gracePeriodSeconds: int | None = None  # noqa: N815
    propagationPolicy: str | None = None  # noqa: N815
    orphanDependents: bool | None = None  # noqa: N815
    preconditions: _Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


def _policy_faults(policy: str | None, orphan: bool | None) -> list[Cause]:  # noqa: FBT001 - three-valued
    path = "propagationPolicy"
    if policy is None:
        return []
    if orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        return [causes.invalid(path, policy, detail)]
    return [] if policy in _POLICIES else [causes.unsupported(path, policy, _POLICIES)]


def _dry_run_faults(query: Query) -> list[Cause]:
    asked = query.get("dryRun", "")
    return [] if asked in ("", "All") else [causes.unsupported("dryRun", [asked], ("All",))]


def _refuse(kind: str, found: list[Cause]) -> None:
    if found:
        raise refusals.invalid(kind, _META_GROUP, "", found)


def boolean(query: Query, name: str) -> bool | None:
    """Return a parameter that is there or not: anything but ``0`` and ``false`` is true."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("0", "false")


def integer(query: Query, name: str) -> int | None:
    """Return a number; raises `Refusal` 400."""
    text = query.get(name, "")
    if not text:
        return None
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise refusals.bad_request(f"strconv.ParseInt: parsing {causes.shown(text)}: invalid syntax")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise refusals.bad_request(f"strconv.ParseInt: parsing {causes.shown(text)}: value out of range")
    return value
