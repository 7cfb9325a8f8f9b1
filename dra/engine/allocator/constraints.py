"""Constraints of a claim on the devices that a search has picked so far (``matchAttribute``, ``distinctAttribute``).

An attribute has a set of values, one of them unless it is a list (``DRAListTypeAttributes``). All devices of a
``matchAttribute`` have at least one value in common; no two devices of a ``distinctAttribute`` have one in common.
Values of different types are different. A device without the attribute satisfies neither.

Each part of a shared device counts as a device of its own, as in kube-scheduler's allocator since 1.37: 1.36 compares
the devices of one request with the last one of them only.
"""

from dra.engine.allocator.claims_to_allocate import Constraint
from dra.engine.allocator.resource_slice_tracker import AttributeValues, CandidateDevice


class ConstraintTracker:
    """The attribute that a constraint is about, of the devices picked so far."""

    def __init__(self, claim: int, constraint: Constraint) -> None:
        self.claim = claim
        self.constraint = constraint
        self._values: list[AttributeValues] = []
        self._common: list[AttributeValues] = []
        """What all devices up to each of those picked have in common."""

    def admit(self, candidate: CandidateDevice) -> bool:
        """Whether a device satisfies the constraint beside the others."""
        found = candidate.values(self.constraint.attribute)
        if found is None:
            return False
        if self.constraint.distinct:
            return not any(_have_common_value(found, other) for other in self._values)
        return not self._common or _have_common_value(found, self._common[-1])

    def push(self, candidate: CandidateDevice) -> None:
        """The device is picked."""
        found = candidate.values(self.constraint.attribute)
        assert found is not None, "a device without the attribute is not admitted"  # noqa: S101
        kind, values = found
        self._values.append(found)
        self._common.append((kind, values & self._common[-1][1]) if self._common else found)

    def pop(self) -> None:
        """The last device is not picked after all."""
        self._values.pop()
        self._common.pop()


def _have_common_value(one: AttributeValues, other: AttributeValues) -> bool:
    return one[0] == other[0] and not one[1].isdisjoint(other[1])
