"""docs/reference/descheduler-plugins.md: the built-in plugins of the descheduler, with every argument."""

from collections.abc import Iterator
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dra.api.descheduler.descheduler_policy import DeschedulerPolicy, PolicyPluginSet
from dra.api.descheduler.forms import MIGRATION_CONTROLLER
from dra.api.descheduler.koordinator_configuration import DeschedulerConfiguration
from dra.api.descheduler.label_selector import LabelSelector
from dra.api.descheduler.profile import DeschedulerProfile, PluginConfig, PluginSet
from dra.cli.reference import markdown
from dra.cli.reference.configuration import field_docstrings, first_docstring_line, format_default
from dra.engine.descheduling.plugin_catalog import BUILT_IN, PluginCatalog

_LEAVES: Final = (LabelSelector, PluginSet, PolicyPluginSet)
"""Models whose fields are not listed again at each place."""

_COLUMNS: Final = ("argument", "default", "description")
_FIELD_COLUMNS: Final = ("field", "default", "description")


def page() -> str:
    """Return docs/reference/descheduler-plugins.md as Markdown."""
    return markdown.page(
        "Plugins of the descheduler",
        "A profile of the [configuration](configuration.md#of-the-descheduler) enables plugins by extension point,\n"
        "and gives arguments in `pluginConfig[].args`. An unknown argument is an error, which names its line.\n"
        "Names and arguments are those of the community's descheduler and of Koordinator, whose files are read as\n"
        "they are: `dra-reserve descheduler --config FILE`.\n",
        "## Profiles\n",
        "Below each extension point, `enabled` and `disabled` are lists of plugins: `enabled: [{name: PodLifeTime}]`.\n"
        "`disabled: [{name: '*'}]` takes away all that is enabled by default: `MigrationController` of `evict` and\n"
        "`filter`.\n",
        markdown.table(_FIELD_COLUMNS, _rows(DeschedulerProfile, "profiles[].")),
        *_plugins(),
        "## Koordinator's DeschedulerConfiguration\n",
        "`apiVersion: descheduler/v1alpha2`. Arguments of `MigrationController` are fields of `migration`; all\n"
        "profiles share these. What the file leaves out is as in dra-reserve's own form;\n"
        "without `deschedulingInterval`, one round is carried out.\n",
        markdown.table(_FIELD_COLUMNS, _rows(DeschedulerConfiguration, "", without=(DeschedulerProfile,))),
        "## The community's DeschedulerPolicy\n",
        "`apiVersion: descheduler/v1alpha2`. Plugins are plain names. `DefaultEvictor` filters always, and pods are\n"
        "moved by migrations: the place is held first. `--descheduling-interval` sets the time between two rounds, 5\n"
        "minutes by default.\n",
        markdown.table(_FIELD_COLUMNS, _rows(DeschedulerPolicy, "")),
    )


def _plugins() -> Iterator[str]:
    catalog = PluginCatalog({})
    for plugin in sorted(BUILT_IN, key=lambda plugin: plugin.name):
        points = ", ".join(f"`{point}`" for point in catalog.points(plugin()))
        yield f"## {plugin.name}\n"
        yield f"{first_docstring_line(plugin)} Extension points: {points}.\n"
        if plugin.name == MIGRATION_CONTROLLER:
            yield "Its arguments are the fields of [migration](configuration.md#of-the-descheduler).\n"
            continue
        yield markdown.table(_COLUMNS, _rows(plugin.Args, ""))


def _rows(
    model: type[BaseModel], path: str, *, without: tuple[type[BaseModel], ...] = ()
) -> Iterator[tuple[str, str, str]]:
    """Yield path, default and meaning of each field, and of the fields inside, but for the models left out."""
    docstrings = _docstrings(model)
    for name, field in model.model_fields.items():
        inner, is_list = _inner_model(field)
        where = f"{path}{field.alias or name}"
        text = docstrings.get(name, "") or (first_docstring_line(inner) if inner is not None else "")
        yield f"`{where}`", _default(field, inner), text
        if inner is not None and inner not in (*_LEAVES, *without):
            yield from _rows(inner, f"{where}[]." if is_list else f"{where}.", without=without)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of all fields, those of inherited ones included."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base.__module__.startswith("dra."):
            texts |= field_docstrings(base)
    return texts


def _inner_model(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """Return the model that a field holds, and whether in a list."""
    if field.annotation is None or field.annotation is PluginConfig:
        return None, False
    waiting: list[tuple[Any, bool]] = [(field.annotation, False)]
    while waiting:
        annotation, is_list = waiting.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation, is_list
        arguments = get_args(annotation)
        waiting += [(argument, is_list or annotation.__class__.__name__ == "GenericAlias") for argument in arguments]
    return None, False


def _default(field: FieldInfo, inner: type[BaseModel] | None) -> str:
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    if inner is not None and isinstance(default, BaseModel):
        return ""
    return format_default(field, default)
