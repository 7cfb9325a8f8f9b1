"""``-o``: how an answer is written, as kubectl's users say it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from dra.cli.kubectl.kinds import meant
from dra.cli.kubectl.output import Format, structured

WITH_TEMPLATE: Final = {Format.JSONPATH, Format.COLUMNS}
"""Those that take what is to be shown behind ``=``."""

DATA: Final = (Format.TABLE, Format.JSON, Format.YAML, Format.JSONPATH)
"""What an answer about one thing can be."""

ROWS: Final = tuple(Format)
"""What a list can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How the answer is written."""

    output: Format = Format.TABLE
    template: str = ""
    headers: bool = True

    @property
    def as_data(self) -> bool:
        """Whether the answer is data, with everything in it."""
        return self.output in {Format.JSON, Format.YAML, Format.JSONPATH}

    def data(self, content: Any) -> str:  # noqa: ANN401 - whatever JSON can say
        """Return the content as JSON or YAML, or what the template takes of it."""
        if self.output is Format.JSONPATH:
            from dra.cli.kubectl.templates import Template  # noqa: PLC0415 - only who asks for it waits for it

            return Template.parse(self.template)(content)
        return structured(content, self.output)

    def write(self, content: Any) -> None:  # noqa: ANN401 - as above
        """Print the content; a template says itself where lines end."""
        click.echo(self.data(content), nl=self.output is not Format.JSONPATH)


class Output(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """``-o``; the value is a `Style` with headers."""

    name = "FORMAT"

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = formats

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows."""
        del param, ctx
        return "|".join(f"{each}=…" if each in WITH_TEMPLATE else each for each in self.formats)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Style:  # noqa: ANN401
        """Return the style; a template is looked at now, not after a cluster has been read."""
        if isinstance(value, Style):
            return value
        name, given, template = str(value).partition("=")
        if name not in self.formats:
            known = ", ".join(f"{each}=TEMPLATE" if each in WITH_TEMPLATE else each for each in self.formats)
            self.fail(f"{name!r} is none of {known}{meant(name, self.formats)}", param, ctx)
        output = Format(name)
        if output not in WITH_TEMPLATE:
            if given:
                self.fail(f"{name} takes nothing behind it", param, ctx)
            return Style(output=output)
        from dra.cli.kubectl.templates import Columns, MalformedTemplateError, Template  # noqa: PLC0415 - as above

        try:
            (Template if output is Format.JSONPATH else Columns).parse(template)
        except MalformedTemplateError as error:
            self.fail(f"{name}: {error}", param, ctx)
        if not template:
            self.fail(f"{name}= and then what to show", param, ctx)
        return Style(output=output, template=template)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the formats that begin so."""
        del ctx, param
        names = [f"{each}=" if each in WITH_TEMPLATE else each.value for each in self.formats]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
