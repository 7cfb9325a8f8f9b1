"""What is wrong with a configuration of a descheduler: each problem has the path of its field."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

from dra.api.configuration import MalformedConfigurationError
from dra.model.meta import Struct

Path: TypeAlias = tuple[str | int, ...]


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


def problems_of(error: ValidationError, *, at: Path = ()) -> Iterator[ConfigurationProblem]:
    """Yield the problems that a model names, below a path."""
    for one in error.errors(include_url=False, include_context=False):
        yield ConfigurationProblem(path=(*at, *one["loc"]), message=one["msg"].removeprefix("Value error, "))
