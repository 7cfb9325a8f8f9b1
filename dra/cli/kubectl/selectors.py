"""Implements ``-l``, ``--field-selector`` and ``--sort-by``: the selection and the order of rows in a list.

The whole cluster is read in any case: the claims of one team do not show which claims hold a device.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A requirement of a field selector: ``metadata.namespace=ml``."""

    path: str
    value: str
    wanted: bool = True

    def known(self, content: Mapping[str, Any]) -> bool:
        """Report whether the object has the field."""
        return _value_at(content, self.path) is not None

    def holds(self, content: Mapping[str, Any]) -> bool:
        """Report whether the object meets the requirement."""
        found = _value_at(content, self.path)
        text = "" if found is None else str(found).lower() if isinstance(found, bool) else str(found)
        return (text == self.value) == self.wanted


def _value_at(content: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for name in path.split("."):
        if not isinstance(content, Mapping) or name not in content:
            return None
        content = content[name]
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorOptions:
    """The options that select and sort the rows of a list."""

    labels: tuple[Callable[[Mapping[str, str]], bool], ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    order: str = ""

    def has(self, labels: Mapping[str, str] | None) -> bool:
        """Report whether an object with these labels is selected."""
        return all(wanted(labels or {}) for wanted in self.labels)


SELECT_ALL = SelectorOptions()


def label_selector_option(command: Command) -> Command:
    """Add ``-l``; the command gets it as `labels`."""
    return click.option(
        "-l",
        "--selector",
        "labels",
        default="",
        callback=_parse_label_selector,
        metavar="SELECTOR",
        help="Only what has these labels: a=b, a!=b, a in (b,c), a, !a; several with commas.",
    )(command)


def selector_options(command: Command) -> Command:
    """Add ``-l``, ``--field-selector`` and ``--sort-by``; the command gets all three as `choice`."""

    @label_selector_option
    @click.option(
        "--field-selector",
        "fields",
        default="",
        callback=_parse_field_selector,
        metavar="SELECTOR",
        help="Only what has these fields of -o json: state=Pending,metadata.namespace!=ml",
    )
    @click.option(
        "--sort-by",
        "order",
        default="",
        callback=_parse_sort_path,
        metavar="PATH",
        help="A JSONPath: .users.started, for one.",
    )
    @functools.wraps(command)
    def wrapped(*, labels: Any, fields: Any, order: str, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(choice=SelectorOptions(labels=labels, fields=fields, order=order), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def _parse_label_selector(ctx: click.Context, param: click.Parameter, text: str) -> Any:  # noqa: ANN401 - requirements
    if not text:
        return ()
    from localplane.selectors import SelectorSyntaxError, parse_label_selector  # noqa: PLC0415 - who asks for it

    try:
        return parse_label_selector(text)
    except SelectorSyntaxError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error


def _parse_field_selector(ctx: click.Context, param: click.Parameter, text: str) -> tuple[FieldRequirement, ...]:
    found = []
    for each in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([^=!]+?)\s*(==|=|!=)\s*(.*?)\s*", each)
        if match is None:
            raise click.BadParameter(f"{each!r}: write it as in metadata.namespace=ml", ctx=ctx, param=param)
        found.append(FieldRequirement(match[1], match[3], match[2] != "!="))
    return tuple(found)


def _parse_sort_path(ctx: click.Context, param: click.Parameter, text: str) -> str:
    if text:
        from dra.cli.kubectl.template_printers import JsonPath, MalformedTemplateError  # noqa: PLC0415 - who asks for it

        try:
            JsonPath.of(text.strip().removeprefix("{").removesuffix("}"))
        except MalformedTemplateError as error:
            raise click.BadParameter(str(error), ctx=ctx, param=param) from error
    return text
