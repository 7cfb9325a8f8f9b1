"""The parts of a profile that Koordinator's configuration and our own share: plugins by extension point, arguments."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dra.api.configuration import ConfigurationSection
from dra.api.descheduler.label_selector import Selector

ALL: Final = "*"
"""Name that disables all plugins that are enabled by default at an extension point."""


def _limit(given: int) -> int:
    if given < 0:
        raise ValueError(
            "must be 0 or more; 0 allows no eviction, and no limit is said by leaving the field out (whereas in "
            "MigrationControllerArgs 0 means no limit)"
        )
    return given


EvictionLimit = Annotated[int, AfterValidator(_limit), WithJsonSchema({"type": "integer", "minimum": 0})]
"""A maximum of evictions in a round: 0 means none at all. (In MigrationControllerArgs, 0 means no limit.)"""


class PluginReference(ConfigurationSection):
    """A plugin by its name."""

    name: Annotated[str, Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _refuse_name_alone(cls, given: Any) -> Any:  # noqa: ANN401 - what a file holds
        """Refuse a plugin as a DeschedulerPolicy writes it, and say how it is written here."""
        if isinstance(given, str):
            raise ValueError(f"a name alone is the form of DeschedulerPolicy; write {{name: {given}}}")  # noqa: TRY004 - what pydantic reports
        return given


class PluginSet(ConfigurationSection):
    """The plugins of an extension point, beside the defaults."""

    enabled: tuple[PluginReference, ...] = ()
    disabled: tuple[PluginReference, ...] = ()
    """Defaults that are not enabled; ``*`` stands for all."""


class Plugins(ConfigurationSection):
    """The plugins of a profile, by extension point."""

    deschedule: PluginSet = PluginSet()
    balance: PluginSet = PluginSet()
    evict: PluginSet = PluginSet()
    """The first plugin acts; MigrationController by default, which reserves before it evicts."""
    filter: PluginSet = PluginSet()
    """All of these must let a pod go; MigrationController by default."""
    preevictionfilter: PluginSet = PluginSet()
    """Further filters, as in the community's policy."""
    presort: PluginSet = PluginSet()
    """Accepted, and without effect: each plugin sorts its own candidates."""
    sort: PluginSet = PluginSet()
    """Accepted, and without effect."""


class PluginConfig(ConfigurationSection):
    """The arguments of a plugin."""

    name: Annotated[str, Field(min_length=1)]
    args: Mapping[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _arguments_inside(cls, given: object) -> object:
        """Refuse arguments beside ``args``, which upstream ignores without a word."""
        beside = [str(name) for name in given if name not in {"name", "args"}] if isinstance(given, Mapping) else []
        if beside:
            raise ValueError(f"{beside[0]}: is not read here; write arguments into args")
        return given


class DeschedulerProfile(ConfigurationSection):
    """A profile: plugins and their arguments, for all nodes or for some."""

    name: str = ""
    """Name in Events and metrics; may be left out if there is one profile only."""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()
    node_selector: Selector | None = None
    """Labels of the nodes whose pods the profile evicts; null: all nodes."""
