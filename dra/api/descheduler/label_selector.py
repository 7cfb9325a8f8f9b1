"""Selectors of labels in configuration files: as objects, or as the text that kubectl takes (``pool=a,zone in (b,c)``).

Koordinator writes ``nodeSelector`` as an object, the community's descheduler as a text; each field takes both forms.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from dra.api.configuration import ConfigurationSection
from dra.api.reservations.validation import is_label_key, is_label_value
from dra.api.selector_operators import SelectorOperator

_TERM: Final = re.compile(
    r"\s*(?:(?P<negation>!)\s*(?P<absent>[^\s,=!()]+)"
    r"|(?P<key>[^\s,=!()]+)(?:\s*(?P<equality>==|=|!=)\s*(?P<value>[^\s,=!()]*)"
    r"|\s+(?P<membership>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


class LabelRequirement(ConfigurationSection):
    """A requirement of a selector (``matchExpressions[]``)."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()
    """The values, for In and NotIn."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not is_label_key(self.key):
            raise ValueError(f"key: {self.key[:64]!r} is not a valid label key")
        if self.operator in {SelectorOperator.IN, SelectorOperator.NOT_IN}:
            if not self.values:
                raise ValueError(f"operator {self.operator} needs values")
            if wrong := next((value for value in self.values if not is_label_value(value)), None):
                raise ValueError(f"values: {wrong[:64]!r} is not a valid label value")
        elif self.values:
            raise ValueError(f"operator {self.operator} takes no values")
        return self

    def matches(self, value: str | None) -> bool:
        """Return whether a label satisfies the requirement; None stands for a missing label."""
        return self.operator.is_met(value, self.values)


class LabelSelector(ConfigurationSection):
    """The labels of the objects that are selected; an empty selector selects all objects."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()

    @model_validator(mode="after")
    def _valid_labels(self) -> Self:
        for key, value in self.match_labels.items():
            if not is_label_key(key):
                raise ValueError(f"matchLabels: {key[:64]!r} is not a valid label key")
            if not is_label_value(value):
                raise ValueError(f"matchLabels.{key}: {value[:64]!r} is not a valid label value")
        return self

    def selects(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether an object with these labels is selected."""
        given = labels or {}
        return self.match_labels.items() <= given.items() and all(
            requirement.matches(given.get(requirement.key)) for requirement in self.match_expressions
        )


def parse_selector(text: str) -> dict[str, Any]:
    """Return the selector in a text, as an object. Raises ValueError."""
    terms = [{"key": key, "operator": operator.value, "values": values} for key, operator, values in _terms(text)]
    return {"matchExpressions": terms}


def _terms(text: str) -> Iterator[tuple[str, SelectorOperator, list[str]]]:
    """Yield key, operator and values of each term."""
    position = 0
    while text[position:].strip():
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(
                f"{text[:128]!r} is not a selector from {text[position : position + 32]!r} on; "
                "write, for example, pool=batch,zone in (a,b),!spot"
            )
        position = match.end()
        if match["negation"]:
            yield match["absent"], SelectorOperator.DOES_NOT_EXIST, []
        elif match["membership"]:
            operator = SelectorOperator.IN if match["membership"] == "in" else SelectorOperator.NOT_IN
            yield match["key"], operator, [value.strip() for value in match["values"].split(",")]
        elif match["equality"]:
            negative = match["equality"] == "!="
            yield match["key"], SelectorOperator.NOT_IN if negative else SelectorOperator.IN, [match["value"]]
        else:
            yield match["key"], SelectorOperator.EXISTS, []


def _from_text(given: object) -> object:
    return parse_selector(given) if isinstance(given, str) else given


def _from_labels(given: object) -> object:
    """Return a selector for labels without the word ``matchLabels``, as in ``{app: web}``."""
    if isinstance(given, Mapping) and given and not given.keys() & {"matchLabels", "matchExpressions"}:
        return {"matchLabels": given}
    return _from_text(given)


_SCHEMA: Final = WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}]})

Selector = Annotated[LabelSelector, BeforeValidator(_from_text), _SCHEMA]
"""A selector as an object or as a text."""

LabelsOrSelector = Annotated[LabelSelector, BeforeValidator(_from_labels), _SCHEMA]
"""A selector as an object or as a text, or labels alone."""
