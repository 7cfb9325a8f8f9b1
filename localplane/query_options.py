"""Parses and validates the options in query parameters, as upstream does.

A malformed number is 400; an invalid combination is 422, as if the options were an object.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from localplane import status_errors
from localplane.codecs import FieldValidation
from localplane.kinds import field_errors
from localplane.kinds.subresource import DeleteOptions
from localplane.objects import Object
from localplane.status_errors import FieldError, StatusError

QueryParameters = Mapping[str, str]

_META_GROUP: Final = "meta.k8s.io"
_MATCH_EXACT: Final = "Exact"
_MATCH_NOT_OLDER_THAN: Final = "NotOlderThan"
_FIELD_MANAGER_MAX_LENGTH: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Options of a list or a watch: meta/v1 ListOptions."""

    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
    allow_watch_bookmarks: bool = False
    send_initial_events: bool | None = None
    revision: int | None = None
    """The requested resourceVersion: None for the newest, 0 for any."""
    is_exact: bool = False
    timeout_seconds: float | None = None
    limit: int = 0
    continue_token: str = ""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a write: meta/v1 CreateOptions, UpdateOptions and PatchOptions."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool = False
    is_apply: bool = False
    """Whether the write is a server-side apply."""


NO_WRITE_OPTIONS: Final = WriteOptions()
"""Options of a write whose request names none."""


def list_options(query: QueryParameters, *, resource: str) -> ListOptions:
    """Return the options of a list or a watch; raises `StatusError`."""
    watch = parse_boolean(query, "watch") or False
    send_initial_events = parse_boolean(query, "sendInitialEvents")
    match, text, continue_token = (
        query.get(name, "") for name in ("resourceVersionMatch", "resourceVersion", "continue")
    )
    causes = (
        _validate_watch_options(match, send_initial_events, continue_token)
        if watch
        else _validate_list_options(match, text, send_initial_events, continue_token)
    )
    _raise_if_invalid("ListOptions", causes)
    limit = parse_integer(query, "limit") or 0
    revision = _list_revision(text, resource=resource, watch=watch)
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        watch=watch,
        allow_watch_bookmarks=parse_boolean(query, "allowWatchBookmarks") or False,
        send_initial_events=send_initial_events,
        revision=revision,
        is_exact=bool(revision) and (match == _MATCH_EXACT or (not match and limit > 0)),
        timeout_seconds=parse_integer(query, "timeoutSeconds"),
        limit=max(0, limit),
        continue_token=continue_token,
    )


def _validate_list_options(
    match: str,
    revision: str,
    send_initial_events: bool | None,  # noqa: FBT001 - three-valued
    continue_token: str,
) -> list[FieldError]:
    causes, path = [], "resourceVersionMatch"
    if match:
        if not revision:
            causes.append(field_errors.forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
        if continue_token:
            causes.append(field_errors.forbidden(path, f"{path} is forbidden when continue is provided"))
        if match not in (_MATCH_EXACT, _MATCH_NOT_OLDER_THAN):
            causes.append(field_errors.not_supported(path, match, (_MATCH_EXACT, _MATCH_NOT_OLDER_THAN, "")))
        if match == _MATCH_EXACT and revision == "0":
            causes.append(field_errors.forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
    if send_initial_events is not None:
        causes.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _validate_watch_options(match: str, send_initial_events: bool | None, continue_token: str) -> list[FieldError]:  # noqa: FBT001 - three-valued
    causes, path = [], "resourceVersionMatch"
    if send_initial_events is not None and match != _MATCH_NOT_OLDER_THAN:
        causes.append(
            field_errors.forbidden(path, f"sendInitialEvents requires setting {path} to {_MATCH_NOT_OLDER_THAN}")
        )
    if match:
        if send_initial_events is None:
            causes.append(
                field_errors.forbidden(path, f"{path} is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != _MATCH_NOT_OLDER_THAN:
            causes.append(field_errors.not_supported(path, match, (_MATCH_NOT_OLDER_THAN,)))
        if continue_token:
            causes.append(field_errors.forbidden(path, f"{path} is forbidden when continue is provided"))
    return causes


def get_revision(query: QueryParameters, *, resource: str, name: str, refuses_malformed: bool) -> int | None:
    """Return the resourceVersion of a GET of an object; raises `StatusError` if it is no unsigned integer.

    `refuses_malformed`: that is 422; if false, upstream returns the bare field error, which becomes an internal error.
    """
    revision = _parse_resource_version(query.get("resourceVersion", ""))
    if not isinstance(revision, FieldError):
        return revision
    if refuses_malformed:
        plural, _, group = resource.partition(".")
        raise status_errors.invalid(plural, group, name, [revision])
    raise StatusError(500, "", f"{revision.field}: {revision.message}")


def _list_revision(text: str, *, resource: str, watch: bool) -> int | None:
    """Return the resourceVersion of a list or a watch; raises `StatusError` if it is no unsigned integer."""
    revision = _parse_resource_version(text)
    if not isinstance(revision, FieldError):
        return revision
    if watch:
        plural, _, group = resource.partition(".")
        raise status_errors.invalid(plural, group, "", [revision])
    raise status_errors.bad_request(f"invalid resource version: {revision.field}: {revision.message}")


def _parse_resource_version(text: str) -> int | FieldError | None:
    if not text:
        return None
    if re.fullmatch(r"[0-9]+", text) is None:
        fault = "invalid syntax"
    elif int(text) >= 1 << 64:
        fault = "value out of range"
    else:
        return int(text)
    detail = f"strconv.ParseUint: parsing {field_errors.format_value(text)}: {fault}"
    return field_errors.invalid("resourceVersion", text, detail)


def write_options(query: QueryParameters, *, verb: str, apply: bool | None = None) -> WriteOptions:
    """Return the options of a write; `verb` is ``Create``, ``Update`` or ``Patch``. Raises `StatusError` 422.

    For a patch, `apply` says whether the patch is a server-side apply.
    """
    if not query and not apply:  # most writes
        return NO_WRITE_OPTIONS
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    causes = _validate_dry_run(query)
    if len(manager) > _FIELD_MANAGER_MAX_LENGTH:
        causes.append(field_errors.too_long("fieldManager", _FIELD_MANAGER_MAX_LENGTH))
    if not manager.isprintable():
        causes.append(field_errors.invalid("fieldManager", manager, "should only contain printable characters"))
    if validation and validation not in tuple(FieldValidation):
        causes.append(field_errors.not_supported("fieldValidation", validation, ("", *FieldValidation)))
    if apply and not manager:
        causes.append(field_errors.required("fieldManager", "is required for apply patch"))
    if apply is False and "force" in query:
        causes.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    _raise_if_invalid(f"{verb}Options", causes)
    return WriteOptions(
        dry_run=bool(query.get("dryRun")),
        field_manager=manager,
        field_validation=FieldValidation(validation or FieldValidation.WARN),
        force=parse_boolean(query, "force") or False,
        is_apply=apply or False,
    )


_DELETION_PROPAGATIONS: Final = ("Background", "Foreground", "Orphan")


def delete_options(query: QueryParameters, body: Object) -> tuple[DeleteOptions, bool]:
    """Return DeleteOptions from the body or the query, and whether the request is a dry run; raises `StatusError`."""
    if not body:
        seconds, orphan = parse_integer(query, "gracePeriodSeconds"), parse_boolean(query, "orphanDependents")
        policy, dry_run = query.get("propagationPolicy"), bool(query.get("dryRun"))
        _raise_if_invalid("DeleteOptions", _validate_dry_run(query) + _validate_propagation_policy(policy, orphan))
        return DeleteOptions(grace_period_seconds=seconds, propagation_policy=policy, orphan_dependents=orphan), dry_run
    try:
        decoded = msgspec.convert(body, _DeleteOptionsBody)
    except msgspec.ValidationError as error:
        raise status_errors.bad_request(f"DeleteOptions cannot be handled: {error}") from None
    preconditions = decoded.preconditions or _Preconditions()
    causes = (
        [field_errors.not_supported("dryRun", decoded.dryRun, ("All",))] if set(decoded.dryRun or ()) - {"All"} else []
    )
    _raise_if_invalid(
        "DeleteOptions", causes + _validate_propagation_policy(decoded.propagationPolicy, decoded.orphanDependents)
    )
    options = DeleteOptions(
        grace_period_seconds=decoded.gracePeriodSeconds,
        propagation_policy=decoded.propagationPolicy,
        orphan_dependents=decoded.orphanDependents,
        uid=preconditions.uid,
        resource_version=preconditions.resourceVersion,
    )
    return options, bool(decoded.dryRun) or bool(query.get("dryRun"))


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - the API's own names, as below


class _DeleteOptionsBody(msgspec.Struct):
    gracePeriodSeconds: int | None = None  # noqa: N815
    propagationPolicy: str | None = None  # noqa: N815
    orphanDependents: bool | None = None  # noqa: N815
    preconditions: _Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


def _validate_propagation_policy(policy: str | None, orphan: bool | None) -> list[FieldError]:  # noqa: FBT001 - three-valued
    path = "propagationPolicy"
    if policy is None:
        return []
    if orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        return [field_errors.invalid(path, policy, detail)]
    return (
        [] if policy in _DELETION_PROPAGATIONS else [field_errors.not_supported(path, policy, _DELETION_PROPAGATIONS)]
    )


def _validate_dry_run(query: QueryParameters) -> list[FieldError]:
    value = query.get("dryRun", "")
    return [] if value in ("", "All") else [field_errors.not_supported("dryRun", [value], ("All",))]


def _raise_if_invalid(kind: str, causes: list[FieldError]) -> None:
    if causes:
        raise status_errors.invalid(kind, _META_GROUP, "", causes)


def parse_boolean(query: QueryParameters, name: str) -> bool | None:
    """Return a boolean parameter, None if absent: any value but ``0`` and ``false`` is true."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("0", "false")


def parse_integer(query: QueryParameters, name: str) -> int | None:
    """Return an integer parameter, None if absent or empty; raises `StatusError` 400."""
    text = query.get(name, "")
    if not text:
        return None
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise status_errors.bad_request(f"strconv.ParseInt: parsing {field_errors.format_value(text)}: invalid syntax")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise status_errors.bad_request(
            f"strconv.ParseInt: parsing {field_errors.format_value(text)}: value out of range"
        )
    return value
