"""docs/reference/configuration.md: every field of the configuration files, from the models that read these files."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel, PlainSerializer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dra.api.configuration import ControllerConfiguration
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.durations import format_duration
from dra.api.extender_configuration import ExtenderConfiguration
from dra.api.page_configuration import PageConfiguration
from dra.api.profiles_configuration import ProfilesConfiguration
from dra.cli.reference import markdown, release_rules
from dra.model.references import POD_GROUPS
from dra.model.workload_types import PODS, WORKLOAD_TYPES

_COLUMNS: Final = ("field", "default", "or else", "description")


def configuration_fields(
    model: type[BaseModel], path: str = "", *, given: BaseModel | None = None
) -> Iterator[tuple[str, str, str, str]]:
    """Yield path, default, other values and meaning of each field.

    `given` is the default of the whole section, whose values take precedence over the defaults of the fields.
    """
    docstrings = field_docstrings(model)
    for name, field in model.model_fields.items():
        where = f"{path}{field.alias or name}"
        default = getattr(given, name) if given is not None else field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            section = docstrings.get(name, "") or first_docstring_line(type(default))
            yield f"`{where}`", "", "", section
            yield from configuration_fields(type(default), f"{where}.", given=default)
            continue
        yield f"`{where}`", format_default(field, default), _other_values(default), docstrings.get(name, "")


def format_default(field: FieldInfo, default: Any) -> str:  # noqa: ANN401 - the default of any field
    """Return the default of a field as people write it."""
    serializers = [serializer.func for serializer in field.metadata if isinstance(serializer, PlainSerializer)]
    is_duration = format_duration in serializers and isinstance(default, int)
    return _format_default(format_duration(default) if is_duration else default)


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field in the source of a model."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    return docstrings_below(tree.body) if isinstance(tree, ast.ClassDef) else {}


def docstrings_below(body: Iterable[ast.stmt]) -> dict[str, str]:
    """Return the docstring below each annotated name of a class or a module."""
    texts: dict[str, str] = {}
    before = ""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            before = statement.target.id
            continue
        if before and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            texts[before] = " ".join(str(statement.value.value).split()).replace("``", "`")
        before = ""
    return texts


def first_docstring_line(model: type[BaseModel]) -> str:
    """Return the first line of a model's docstring."""
    return (model.__doc__ or "").partition("\n")[0].replace("``", "`")


def _format_default(value: Any) -> str:  # noqa: ANN401 - the default of any field
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, bool) or value is None:
        return f"`{str(value).lower() if value is not None else 'null'}`"
    if isinstance(value, tuple):
        return "none" if not value else ", ".join(f"`{item}`" for item in value)
    return f"`{value}`" if value != "" else "empty"


def _other_values(value: Any) -> str:  # noqa: ANN401 - the default of any field
    if not isinstance(value, Enum):
        return ""
    return ", ".join(f"`{member.value}`" for member in type(value) if member is not value)


def _built_in_rules() -> Iterator[tuple[str, str, str]]:
    """Yield each kind of workload with its release rule and its expression for suspended workloads."""
    for workload_type in WORKLOAD_TYPES:
        yield (
            f"`{workload_type.resource}`",
            _format_rule(workload_type.release_rule),
            _format_rule(workload_type.suspended_rule),
        )


def _format_rule(expression: str) -> str:
    return f"`{expression}`" if expression else "none"


_READ_ANYWAY: Final = frozenset({PODS, POD_GROUPS})
"""Kinds that the controller reads for itself: pods always, PodGroups in mode replace."""


def _unreadable_kinds() -> str:
    """Return the kinds with a built-in rule that the installed roles do not let the controller read."""
    return ", ".join(
        f"`{workload_type.resource}`"
        for workload_type in WORKLOAD_TYPES
        if not (workload_type.readable or workload_type.resource in _READ_ANYWAY)
    )


def page() -> str:
    """Return docs/reference/configuration.md as Markdown."""
    return markdown.page(
        "Configuration",
        "Four files, each with `--config FILE`. Unknown fields are refused by name. As installed:\n"
        "[config.yaml](../../deploy/kustomize/base/config.yaml) with a comment on each field. With Helm the\n"
        "controller's are values below `config`.\n",
        "## Of the controller\n",
        markdown.table(_COLUMNS, configuration_fields(ControllerConfiguration)),
        "## Built-in release rules\n",
        "A claim is released when the rule holds for its workload and no unfinished pod references the claim. Claims\n"
        "of kinds without a rule stay reserved until the object is deleted, or its controller releases the claim.\n"
        "A rule in `releaseRules` replaces the built-in rule of the same resource. The claim of a suspended workload\n"
        "is released likewise if the claim's annotation `reserve.dra/when-suspended` or `releaseSuspended` says so.\n\n"
        f"The installed roles let the controller read all of these kinds but {_unreadable_kinds()},\n"
        f"and in mode `alongside` `{POD_GROUPS}`. A claim of such a kind stays reserved\n"
        "(`WorkloadUnreadable`) until you [add the kind](rights.md#add-a-kind-of-workload).\n",
        markdown.table(("workload", "rule", "suspended"), _built_in_rules()),
        release_rules.section(),
        "## Of the scheduler extender\n",
        markdown.table(_COLUMNS, configuration_fields(ExtenderConfiguration)),
        "## Of the descheduler\n",
        "[config.yaml](../../deploy/descheduler/config.yaml) as installed. With Helm, `migration` is the value\n"
        "`descheduler.migration`. Its fields are those of Koordinator's `MigrationControllerArgs`. For profiles see\n"
        "[plugins of the descheduler](descheduler-plugins.md). `dra-reserve descheduler` reads Koordinator's\n"
        "`DeschedulerConfiguration` and the community's `DeschedulerPolicy` as well, both of `descheduler/v1alpha2`.\n",
        markdown.table(_COLUMNS, configuration_fields(DeschedulerProcessConfiguration)),
        "## Of the process for profiles\n",
        "[config.yaml](../../deploy/colocation-profiles/config.yaml) of `dra-reserve colocation-profiles`.\n",
        markdown.table(_COLUMNS, configuration_fields(ProfilesConfiguration)),
        "## Of the page\n",
        "`dra-reserve page` serves the [page](../how-to/page.md) to the users of a cluster.\n",
        markdown.table(_COLUMNS, configuration_fields(PageConfiguration)),
    )
