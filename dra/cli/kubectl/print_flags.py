"""Parses ``-o``, with the formats that kubectl's users know."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from dra.cli.cluster_flags import Command
from dra.cli.kubectl.printers import OutputFormat, did_you_mean, format_structured

TEMPLATE_FORMATS: Final = {OutputFormat.JSONPATH, OutputFormat.COLUMNS}
"""Formats that take a template behind ``=``."""

OBJECT_FORMATS: Final = (OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.YAML, OutputFormat.JSONPATH)
"""Formats of an answer about one object."""

TREE_FORMATS: Final = (*OBJECT_FORMATS, OutputFormat.WIDE)
"""Formats of a tree, which is no table."""

RESULT_FORMATS: Final = (
    OutputFormat.TABLE,
    OutputFormat.NAME,
    OutputFormat.JSON,
    OutputFormat.YAML,
    OutputFormat.JSONPATH,
)

LIST_FORMATS: Final = tuple(OutputFormat)
"""Formats of a list of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """The options that say how an answer is printed."""

    format: OutputFormat = OutputFormat.TABLE
    template: str = ""
    headers: bool = True
    verbose: bool = False
    """Whether to print facts that are unknown and matter only to those who ask."""

    @property
    def is_structured(self) -> bool:
        """Whether the answer is structured data, with all fields."""
        return self.format in {OutputFormat.JSON, OutputFormat.YAML, OutputFormat.JSONPATH}

    def render(self, content: Any) -> str:  # noqa: ANN401 - whatever JSON can say
        """Return the content as JSON or YAML, or the part that the template selects."""
        if self.format is OutputFormat.JSONPATH:
            from dra.cli.kubectl.template_printers import JsonPathTemplate  # noqa: PLC0415 - only who asks for it waits for it

            return JsonPathTemplate.parse(self.template)(content)
        return format_structured(content, self.format)

    def print(self, content: Any) -> None:  # noqa: ANN401 - as above
        """Print the content; a template defines its own line ends."""
        click.echo(self.render(content), nl=self.format is not OutputFormat.JSONPATH)


class OutputParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """The type of ``-o``, whose value is a `PrintOptions` with headers."""

    name = "FORMAT"

    def __init__(self, formats: Sequence[OutputFormat]) -> None:
        self.formats = formats

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the formats that the help shows."""
        del param, ctx
        return "|".join(f"{form}=…" if form in TEMPLATE_FORMATS else form for form in self.formats)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PrintOptions:  # noqa: ANN401
        """Return the options; a template is checked now, not after a cluster has been read."""
        if isinstance(value, PrintOptions):
            return value
        name, given, template = str(value).partition("=")
        if name not in self.formats:
            known = ", ".join(f"{form}=TEMPLATE" if form in TEMPLATE_FORMATS else form for form in self.formats)
            self.fail(f"{name!r} is not a valid format; use {known}{did_you_mean(name, self.formats)}", param, ctx)
        output = OutputFormat(name)
        if output not in TEMPLATE_FORMATS:
            if given:
                self.fail(f"{name} takes no template", param, ctx)
            return PrintOptions(format=output)
        from dra.cli.kubectl.template_printers import CustomColumns, JsonPathTemplate, MalformedTemplateError  # noqa: PLC0415 - as above

        try:
            (JsonPathTemplate if output is OutputFormat.JSONPATH else CustomColumns).parse(template)
        except MalformedTemplateError as error:
            self.fail(f"{name}: {error}", param, ctx)
        if not template:
            self.fail(f"{name}= requires a template", param, ctx)
        return PrintOptions(format=output, template=template)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the formats that begin with the incomplete word."""
        del ctx, param
        names = [f"{form}=" if form in TEMPLATE_FORMATS else form.value for form in self.formats]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


watch_option = click.option(
    "-w", "--watch", is_flag=True, help="After listing the objects, watch for changes until interrupted."
)
"""``-w``; the command gets it as `watch`."""


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Also print what the command cannot know, and why.")
"""``-v``; the command gets it as `verbose`."""


def print_options(command: Command) -> Command:
    """Add ``-o`` and ``--no-headers`` with the formats of one object; the command gets `output`."""
    return _add_print_options(command, OBJECT_FORMATS)


def tree_print_options(command: Command) -> Command:
    """Add ``-o`` and ``--no-headers`` with the formats of a tree; the command gets `output`."""
    return _add_print_options(command, TREE_FORMATS)


def list_print_options(command: Command) -> Command:
    """Add ``-o`` and ``--no-headers`` with the formats of a list; the command gets `output`."""
    return _add_print_options(command, LIST_FORMATS)


def _add_print_options(command: Command, formats: Sequence[OutputFormat]) -> Command:
    @click.option(
        "-o",
        "--output",
        type=OutputParam(formats),
        default=OutputFormat.TABLE.value,
        show_default=True,
        help="Output format.",
    )
    @click.option("--no-headers", is_flag=True, help="Do not print headers.")
    @functools.wraps(command)
    def wrapped(*, output: PrintOptions, no_headers: bool, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(output=replace(output, headers=not no_headers), **rest)

    return wrapped  # type: ignore[return-value] # as above
