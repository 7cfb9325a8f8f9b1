"""Builds the Status of each API error, with kube-apiserver's reasons and messages.

Each function returns an exception to raise; `StatusError.response` is the response of the exception.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dra.kube.transport import JSON, Response
from localplane.objects import Object, encode


class FieldErrorType(StrEnum):
    """Types of field errors: the values of ``details.causes[].reason``."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    UNSUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    TOO_SHORT = "FieldValueTooShort"
    TYPE = "FieldValueTypeInvalid"
    NOT_FOUND = "FieldValueNotFound"
    INTERNAL = "InternalError"


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field: ``spec.gpus``, and ``Invalid value: 0: must be …``."""

    type: FieldErrorType
    field: str
    message: str


class StatusError(Exception):
    """The error of a request that is answered with a Status other than 2xx."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata: Object = {}
        """ListMeta of the Status: the ``continue`` token of a 410."""

    @property
    def status(self) -> Object:
        """Return the Status object."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    @property
    def response(self) -> Response:
        """Return the HTTP response."""
        headers = {"content-type": JSON}
        if retry_after := (self.details or {}).get("retryAfterSeconds"):
            headers["retry-after"] = str(retry_after)
        return Response(self.code, headers, encode(self.status))


def _status_details(name: str, group: str, kind: str) -> Object:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def _group_resource(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> StatusError:
    """Return 404 NotFound for an object."""
    return StatusError(
        404, "NotFound", f'{_group_resource(plural, group)} "{name}" not found', _status_details(name, group, plural)
    )


def resource_not_found() -> StatusError:
    """Return 404 NotFound for a path below a served group version."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def page_not_found() -> StatusError:
    """Return 404 NotFound for a path that no server of the chain serves, as since 1.38."""
    return StatusError(404, "NotFound", "404 page not found")


def container_access_not_found(subresource: str) -> StatusError:
    """Return 404 NotFound for a subresource that a kubelet answers from a pod's containers."""
    message = f"pods/{subresource} is not served: a local plane has no kubelets that could reach into containers"
    return StatusError(404, "NotFound", message, {})


def already_exists(plural: str, group: str, name: str) -> StatusError:
    """Return 409 AlreadyExists for a name in use."""
    message = f'{_group_resource(plural, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _status_details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> StatusError:
    """Return 409 Conflict for a write that is not based on the current version."""
    message = f'Operation cannot be fulfilled on {_group_resource(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _status_details(name, group, plural))


def object_modified(plural: str, group: str, name: str) -> StatusError:
    """Return 409 Conflict for a stale resourceVersion."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def invalid(kind: str, group: str, name: str, causes: Sequence[FieldError]) -> StatusError:
    """Return 422 Invalid with all field errors."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{_group_resource(kind, group)} "{name}" is invalid: {summary}'
    listed = [{"reason": c.type.value, "message": c.message, "field": c.field} for c in causes]
    return StatusError(422, "Invalid", message, _status_details(name, group, kind) | {"causes": listed})


def forbidden(plural: str, group: str, name: str, why: str) -> StatusError:
    """Return 403 Forbidden for an object that admission refuses."""
    message = f'{_group_resource(plural, group)} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _status_details(name, group, plural))


def bad_request(message: str) -> StatusError:
    """Return 400 BadRequest with a message."""
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    """Return 405 MethodNotAllowed for the resource."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """Return 415 UnsupportedMediaType with the accepted types."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str) -> StatusError:
    """Return 410 Expired; an open watch sends its Status as the object of an ERROR event."""
    return StatusError(410, "Expired", message)


def unauthorized() -> StatusError:
    """Return 401 Unauthorized for a missing or wrong token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def request_entity_too_large(limit: int) -> StatusError:
    """Return 413 RequestEntityTooLarge with the limit in bytes."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def internal_error(message: str) -> StatusError:
    """Return 500 InternalError for a bug of the server."""
    causes = [{"message": message}]
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": causes})


def not_acceptable(offered: Sequence[str]) -> StatusError:
    """Return 406 NotAcceptable with the offered media types."""
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return StatusError(406, "NotAcceptable", message)


def namespace_terminating(plural: str, group: str, name: str, namespace: str) -> StatusError:
    """Return 403 Forbidden for a new object in a namespace that is being terminated."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f'{_group_resource(plural, group)} "{name}" is forbidden: {why}'
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return StatusError(403, "Forbidden", message, _status_details(name, group, plural) | {"causes": [cause]})


def too_large_resource_version(revision: int, current: int) -> StatusError:
    """Return 504 Timeout for a revision that the store has not reached."""
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def request_rejected() -> StatusError:
    """Return 422 Invalid for a patch that cannot be applied to its object; upstream names no cause."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
