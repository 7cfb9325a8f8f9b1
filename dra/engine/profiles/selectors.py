"""Label selectors: the first requirement that labels do not meet, and whether two selectors can select one object."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from dra.api.profiles.model import Requirement
from dra.api.selector_operators import SelectorOperator


def is_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Report whether labels meet a requirement."""
    return requirement.operator.is_met(labels.get(requirement.key), requirement.values)


def find_unmet(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> Requirement | None:
    """Return the first requirement that labels do not meet; None if they meet all."""
    return next((requirement for requirement in requirements if not is_met(requirement, labels)), None)


def requirement_text(requirement: Requirement) -> str:
    """Return a requirement as kubectl writes it: ``app=web``, ``tier in (a,b)``, ``!spot``."""
    values = ",".join(requirement.values)
    match requirement.operator:
        case SelectorOperator.EXISTS:
            return requirement.key
        case SelectorOperator.DOES_NOT_EXIST:
            return f"!{requirement.key}"
        case SelectorOperator.IN if len(requirement.values) == 1:
            return f"{requirement.key}={values}"
        case SelectorOperator.IN:
            return f"{requirement.key} in ({values})"
        case SelectorOperator.NOT_IN:
            return f"{requirement.key} notin ({values})"


def can_overlap(one: Sequence[Requirement], other: Sequence[Requirement]) -> bool:
    """Report whether any labels meet both lists of requirements."""
    both = sorted((*one, *other), key=lambda requirement: requirement.key)
    return all(_is_satisfiable(tuple(of_key)) for _, of_key in groupby(both, key=lambda requirement: requirement.key))


def _is_satisfiable(requirements: Sequence[Requirement]) -> bool:
    """Report whether a label can meet requirements on one key, all of them."""
    key = requirements[0].key
    named = {value for requirement in requirements for value in requirement.values}
    unnamed = "0" * (1 + max(map(len, named), default=0))  # any value that no requirement names
    candidates: list[Mapping[str, str]] = [{}, {key: unnamed}, *({key: value} for value in named)]
    return any(find_unmet(requirements, candidate) is None for candidate in candidates)
