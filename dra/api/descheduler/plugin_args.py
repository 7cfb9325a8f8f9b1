"""The base of the arguments of plugins, and the parts that several plugins share."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import AfterValidator, StrictStr, model_validator

from dra.api.configuration import ConfigurationSection

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _namespace(given: str) -> str:
    if not _NAMESPACE.fullmatch(given):
        raise ValueError(f"{given[:64]!r} is not the name of a namespace; write names in full, patterns are not read")
    return given


class ArgsSection(ConfigurationSection):
    """The base of arguments and their parts: a null counts as an absent field, as in Go."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value is not None}


class PluginArgs(ArgsSection):
    """The base of the arguments of a plugin: frozen, camelCase in files; unknown fields are refused by path."""


class Namespaces(ArgsSection):
    """The namespaces whose pods a plugin considers; at most one of the lists may be given."""

    include: tuple[Annotated[StrictStr, AfterValidator(_namespace)], ...] = ()
    exclude: tuple[Annotated[StrictStr, AfterValidator(_namespace)], ...] = ()

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.include and self.exclude:
            raise ValueError("give include or exclude, not both")
        return self

    def selects(self, namespace: str) -> bool:
        """Return whether pods of a namespace are considered."""
        return namespace not in self.exclude and (not self.include or namespace in self.include)
