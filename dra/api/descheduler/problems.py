"""Problems of a configuration of a descheduler, each with the path of its field."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError

from dra.api.configuration import MalformedConfigurationError
from dra.api.unknown_fields import UNKNOWN_FIELD, unknown_field_text
from dra.model.meta import Struct

Path: TypeAlias = tuple[str | int, ...]

_OF_VALIDATOR: Final = "value_error"
_SHAPES: Final = {
    "model_type": "must be a mapping of fields",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}
"""Type of a pydantic error whose own text names classes of Python → what to write instead."""
_FIELD: Final = re.compile(r"([a-z][A-Za-z]*(?:\[[0-9]+\]|\.[A-Za-z0-9][A-Za-z0-9/_-]*)*): ")
_PART: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9/_-]*)|\[([0-9]+)\]")


class ConfigurationProblem(Struct, frozen=True):
    """A field that is wrong, and why."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.message}" if self.path else self.message


class MalformedDeschedulerConfigurationError(MalformedConfigurationError):
    """A configuration that no descheduler can run with."""

    def __init__(self, problems: Iterable[ConfigurationProblem], *, proposal: Mapping[str, Any] | None = None) -> None:
        """Create the error; ``proposal`` is a configuration that says the same and is valid."""
        self.problems = tuple(problems)
        self.proposal = proposal
        super().__init__("; ".join(map(str, self.problems)))


def format_path(path: Path) -> str:
    """Return a path as text: ``profiles[0].pluginConfig[1].args``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def problems_of(error: ValidationError, model: type[BaseModel], *, at: Path = ()) -> Iterator[ConfigurationProblem]:
    """Yield the problems that a model names, below a path.

    What a validator says of fields together starts with the path of one of these: ``thresholds.cpu: is above …``.
    """
    for one in error.errors(include_url=False, include_context=False):
        path, message = (*at, *one["loc"]), one["msg"]
        if one["type"] == UNKNOWN_FIELD:
            message = unknown_field_text(model, one["loc"])
        if shape := _SHAPES.get(one["type"]):
            message = f"{shape}, not a list" if isinstance(one["input"], list) else shape
        if one["type"] == _OF_VALIDATOR:
            message = message.removeprefix("Value error, ")
            if match := _FIELD.match(message):
                path, message = (*path, *_parts(match[1])), message[match.end() :]
        yield ConfigurationProblem(path=path, message=message)


def _parts(text: str) -> Iterator[str | int]:
    """Yield the parts of a path in a text: ``nodePools[0].lowThresholds.cpu``."""
    for name, index in _PART.findall(text):
        yield int(index) if index else name
