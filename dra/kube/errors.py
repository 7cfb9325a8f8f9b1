"""Errors of an API server, one class for each case that callers distinguish.

The HTTP status decides, and where one status means two things, the ``reason`` of the Status object: 409 is `Conflict`
(read again) or `AlreadyExists`. `Unreachable` stands for no answer at all. All texts start with the object.
"""

from typing import Any, Final

import msgspec

from dra.kube.transport import Response
from dra.model.meta import Struct

TEXT_LIMIT: Final = 1024
"""Maximum number of characters of an error text: validation errors of a claim can quote the whole claim."""


class StatusCause(Struct, frozen=True):
    """An item of ``details.causes[]`` of a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """The ``details`` of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(Struct, frozen=True):
    """A Status object: the body of an error response, or the object of an ERROR event in a watch."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(Exception):
    """A response other than success.

    `subject` names the object in the text. A caller that knows a better name than the layer that raised may set it.
    """

    def __init__(self, subject: str, status: Status, *, retry_after: float | None = None) -> None:
        super().__init__(subject, status)
        self.subject = subject
        self.status = status.code
        self.reason = status.reason
        self.message = truncated(status.message)
        self.details = status.details or StatusDetails()
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.subject}: {self.message or self.reason or f'HTTP {self.status}'}"

    @property
    def is_outcome_unknown(self) -> bool:
        """Report whether a write may have happened, or may still happen: the caller must read, not repeat."""
        return False

    def has_cause(self, reason: str) -> bool:
        """Return whether the server gave `reason` among its causes."""
        return any(cause.reason == reason for cause in self.details.causes or ())

    def has_field_cause(self, field: str) -> bool:
        """Return whether the server objects to `field`."""
        return any(cause.field == field for cause in self.details.causes or ())


class Invalid(ApiError):  # noqa: N818 - these classes bear the API's own names
    """422: the object violates a rule of its kind; the same request will never succeed."""


class Unauthorized(ApiError):  # noqa: N818 - as above
    """401, after credentials have been refreshed once."""


class Forbidden(ApiError):  # noqa: N818 - as above
    """403: RBAC does not allow the request, or an admission plugin refused it."""


class NotFound(ApiError):  # noqa: N818 - as above
    """404: no such object, namespace or kind."""

    def is_about(self, name: str) -> bool:
        """Return whether no object has that name; otherwise this server does not serve the kind, or not yet."""
        return self.details.name == name


class Conflict(ApiError):  # noqa: N818 - as above
    """409: the object has changed since the decision; read it again and decide again."""


class AlreadyExists(ApiError):  # noqa: N818 - as above
    """409 with reason AlreadyExists: the name is taken."""


class Expired(ApiError):  # noqa: N818 - as above
    """410: the resourceVersion or the continue token is too old; list again."""


class TooManyRequests(ApiError):  # noqa: N818 - as above
    """429: the server sheds load, or a disruption budget refuses an eviction."""

    @property
    def is_retriable(self) -> bool:
        """Report whether the same request can succeed later; a disruption budget's refusal is no rate limit."""
        return self.retry_after is not None and not self.has_cause("DisruptionBudget")


class ResponseTooLarge(ApiError):  # noqa: N818 - as above
    """A successful response that is longer than the client's limit; its content is unknown."""

    def __init__(self, subject: str, max_bytes: int) -> None:
        super().__init__(subject, Status(code=200, message=f"the response is longer than {max_bytes >> 20} MiB"))


class ServerError(ApiError):
    """5xx: the outcome of a write is unknown."""

    @property
    def is_outcome_unknown(self) -> bool:
        """Return True: the outcome of a write is unknown."""
        return True


class Timeout(ServerError):  # noqa: N818 - as above
    """504: not done within the server's own limit; a write may still happen."""


class UnreadableResponse(ApiError):  # noqa: N818 - as above
    """A success whose body does not decode, as from the login page of a proxy. A write has happened in that case."""

    def __init__(self, subject: str, cause: Exception) -> None:
        super().__init__(subject, Status(reason="Unreadable", message=f"the response cannot be decoded: {cause}"))

    @property
    def is_outcome_unknown(self) -> bool:
        """Return True: the request succeeded, but its result is unknown."""
        return True


class Unreachable(ApiError):  # noqa: N818 - as above
    """No response: the connection was refused, broken or silent, or the request was never sent.

    `is_outcome_unknown`: the server may have received the request. A write must then be followed by a read, never be
    repeated.
    """

    def __init__(self, subject: str, message: str, *, outcome_unknown: bool) -> None:
        super().__init__(subject, Status(reason="Unreachable", message=message))
        self._outcome_unknown = outcome_unknown

    @property
    def is_outcome_unknown(self) -> bool:
        """Report whether the server may have received the request."""
        return self._outcome_unknown


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
    504: Timeout,
}
_STATUS_DECODER: Final = msgspec.json.Decoder(Status)


def error_of(status: Status, subject: str, *, retry_after: float | None = None) -> ApiError:
    """Return the error that `status` stands for."""
    if status.reason == "AlreadyExists":
        kind: type[ApiError] = AlreadyExists
    else:
        kind = _BY_STATUS.get(status.code, ServerError if status.code >= 500 else ApiError)  # noqa: PLR2004 - 5xx
    if retry_after is None and status.details is not None and status.details.retry_after_seconds is not None:
        retry_after = float(status.details.retry_after_seconds)
    return kind(subject, status, retry_after=retry_after)


def raise_for_status(response: Response, subject: str) -> None:
    """Return if the response is a success (2xx), else raise the matching error.

    The code of the HTTP response wins over the code in the body. Not every error has a Status body: paths that do not
    exist answer in plain text, proxies in HTML.
    """
    if 200 <= response.status < 300:  # noqa: PLR2004 - 2xx
        return
    try:
        status = _STATUS_DECODER.decode(response.body)
    except msgspec.DecodeError:
        status = Status()
    if status.kind != "Status":
        status = Status(message=response.body[: 4 * TEXT_LIMIT].decode(errors="replace").strip())
    status = msgspec.structs.replace(status, code=response.status)
    raise error_of(status, subject, retry_after=_retry_after_seconds(response.headers.get("retry-after")))


def _retry_after_seconds(header: str | None) -> float | None:
    """Return the Retry-After header as seconds; API servers never use its other form, a date."""
    return float(header) if header is not None and header.isdecimal() else None


def truncated(text: Any) -> str:  # noqa: ANN401 - anything with a text
    """Return `text` as a string of at most `TEXT_LIMIT` characters."""
    plain = str(text)
    return plain if len(plain) <= TEXT_LIMIT else plain[: TEXT_LIMIT - 1] + "…"
