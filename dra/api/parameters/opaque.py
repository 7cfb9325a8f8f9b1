"""Decoding of opaque parameters; `dra.api.parameters.applicable` chooses the entry that applies to a request.

A DeviceClass and a ResourceClaim may carry ``config`` entries with parameters that the API server does not validate.
So the driver is the first to check them, and a typo must not silently mean the default: version and kind must be known,
unknown fields are rejected by name, and an error begins with the path of the field: ``GpuConfig.sharing``.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic import AliasGenerator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from dra.api.unknown_fields import UNKNOWN_FIELD, unknown_field_text

API_VERSION: Final = "reserve.dra/v1alpha1"

MAX_ERRORS: Final = 8
"""Maximum number of errors of malformed parameters that a message lists: users write thousands of unknown fields as
easily as one."""

MAX_SHOWN: Final = 256
"""Maximum characters of a path or value in the message; both are a user's."""


class Parameters(BaseModel):
    """The base of parameters and their parts: frozen, camelCase in files, unknown fields rejected."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
    )


P = TypeVar("P", bound=Parameters)


class MalformedParametersError(ValueError):
    """Parameters that cannot be used; the text begins with the path of a field."""


def decode_parameters(parameters: Mapping[str, Any], kind: type[P]) -> P:
    """Return parameters of a kind, which has the name of its class. Raises MalformedParametersError."""
    content = dict(parameters.items())  # not `dict(parameters)`, which reads field by field
    version, name = content.pop("apiVersion", None), content.pop("kind", None)
    if version != API_VERSION:
        raise MalformedParametersError(f"apiVersion: must be {API_VERSION}, not {_format_value(version)}")
    if name != kind.__name__:
        raise MalformedParametersError(f"kind: must be {kind.__name__}, not {_format_value(name)}")
    try:
        # By alias alone: the names of Python are not part of the format.
        return kind.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        raise MalformedParametersError(validation_message(error, kind)) from error


def validation_message(error: ValidationError, model: type[BaseModel], *, root: str | None = None) -> str:
    """Return the errors of a document as text, each after the path of its field."""
    start = model.__name__ if root is None else root
    messages = []
    for detail in islice(error.errors(include_url=False), MAX_ERRORS):
        where = detail["loc"]
        if detail["type"] == UNKNOWN_FIELD:
            text = unknown_field_text(model, where)
        elif detail["type"] == "value_error":
            text = str(detail["ctx"]["error"])
        elif detail["type"] == "missing":
            text = "required"
        else:
            text = f"{detail['msg'][0].lower()}{detail['msg'][1:]}, not {_format_value(detail['input'])}"
        path = _shortened(_field_path(start, where))
        messages.append(f"{path}: {text}" if path else text)
    if error.error_count() > MAX_ERRORS:
        messages.append(f"and {error.error_count() - MAX_ERRORS} more errors")
    return "; ".join(messages)


def _field_path(start: str, where: Iterable[str | int]) -> str:
    path = start
    for step in where:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _format_value(value: object) -> str:
    if value is None:
        return "nothing"
    return _shortened(repr(value)) if isinstance(value, str | int | float) else "an object"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
