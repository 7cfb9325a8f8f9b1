"""The base of the arguments of plugins, and the parts that several plugins share."""

from typing import Self

from pydantic import model_validator

from dra.api.configuration import ConfigurationSection


class PluginArgs(ConfigurationSection):
    """The base of the arguments of a plugin: frozen, camelCase in files; unknown fields are refused by path."""


class Namespaces(ConfigurationSection):
    """The namespaces whose pods a plugin looks at; at most one of the lists may be given."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.include and self.exclude:
            raise ValueError("give include or exclude, not both")
        return self
