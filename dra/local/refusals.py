"""Why the server says no: the Status bodies of all errors, in the words of the real one.

Each builder returns an exception to raise; `Refusal.response` makes the answer of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dra.kube.transport import JSON, Response
from dra.local.objects import Object, encode


class Fault(StrEnum):
    """What is wrong with a field: ``details.causes[].reason``."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    UNSUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE = "FieldValueTypeInvalid"
    NOT_FOUND = "FieldValueNotFound"
    INTERNAL = "InternalError"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong: ``spec.gpus``, and ``Invalid value: 0: must be …``."""

    fault: Fault
    field: str
    message: str


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """An answer other than 2xx."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.meta: Object = {}
        """``metadata`` of the Status."""

    @property
    def status(self) -> Object:
        """The Status object."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self.meta, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    @property
    def response(self) -> Response:
        """The answer over HTTP."""
        return Response(self.code, {"content-type": JSON}, encode(self.status))


def _about(name: str, group: str, kind: str) -> Object:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def _label(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> Refusal:
    """Return 404 for an object."""
    return Refusal(404, "NotFound", f'{_label(plural, group)} "{name}" not found', _about(name, group, plural))


def no_such_resource() -> Refusal:
    """Return 404 for a path below a version that there is."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> Refusal:
    """Return 409 for a name that is taken."""
    message = f'{_label(plural, group)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _about(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> Refusal:
    """Return 409 for a write that was decided on something else than the current version."""
    message = f'Operation cannot be fulfilled on {_label(plural, group)} "{name}": {why}'
    return Refusal(409, "Conflict", message, _about(name, group, plural))


def modified(plural: str, group: str, name: str) -> Refusal:
    """Return 409 for a stale resourceVersion."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """Return 422 with everything that is wrong."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{_label(kind, group)} "{name}" is invalid: {summary}'
    listed = [{"reason": c.fault.value, "message": c.message, "field": c.field} for c in causes]
    return Refusal(422, "Invalid", message, _about(name, group, kind) | {"causes": listed})


def forbidden(plural: str, group: str, name: str, why: str) -> Refusal:
    """Return 403: admission does not let it in."""
    message = f'{_label(plural, group)} "{name}" is forbidden: {why}'
    return Refusal(403, "Forbidden", message, _about(name, group, plural))


def bad_request(message: str) -> Refusal:
    """Return 400."""
    return Refusal(400, "BadRequest", message)


def method_not_allowed() -> Refusal:
    """Return 405."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    """Return 415."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return Refusal(415, "UnsupportedMediaType", message)


def expired(message: str) -> Refusal:
    """Return 410; inside of a watch its status is the object of the ERROR event."""
    return Refusal(410, "Expired", message)


def unauthorized() -> Refusal:
    """Return 401."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def too_large(limit: int) -> Refusal:
    """Return 413."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def internal_error(message: str) -> Refusal:
    """Return 500: a mistake of ours."""
    causes = [{"message": message}]
    return Refusal(500, "InternalError", f"Internal error occurred: {message}", {"causes": causes})


def not_acceptable(offered: Sequence[str]) -> Refusal:
    """Return 406."""
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return Refusal(406, "NotAcceptable", message)


def terminating(plural: str, group: str, name: str, namespace: str) -> Refusal:
    """Return 403 for an object that would be made in a namespace that ends."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f'{_label(plural, group)} "{name}" is forbidden: {why}'
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return Refusal(403, "Forbidden", message, _about(name, group, plural) | {"causes": [cause]})


def too_new(revision: int, current: int) -> Refusal:
    """Return 504 for a revision that is still to come."""
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Refusal(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def rejected() -> Refusal:
    """Return 422 for a patch that does not fit its object; upstream does not say why."""
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})
