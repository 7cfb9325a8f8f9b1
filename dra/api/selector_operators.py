"""The operators of label selectors, with what each requires of a label."""

from collections.abc import Collection
from enum import StrEnum


class SelectorOperator(StrEnum):
    """The relation of a label to the values of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"

    def is_met(self, value: str | None, values: Collection[str]) -> bool:
        """Return whether the value of a label meets a requirement with ``values``; None stands for a missing label."""
        match self:
            case SelectorOperator.IN:
                return value in values
            case SelectorOperator.NOT_IN:
                return value not in values
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
