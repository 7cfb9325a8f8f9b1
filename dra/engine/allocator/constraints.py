"""Constraints of a claim on the devices that a search has picked so far (``matchAttribute``, ``distinctAttribute``).

An attribute has a set of values, with one element unless the attribute is a list (``DRAListTypeAttributes``). All
devices under a ``matchAttribute`` share at least one value; no two devices under a ``distinctAttribute`` share a value.
Values of different types are different. A device without the attribute satisfies neither constraint. An attribute that
has no usable value ends the search since Kubernetes 1.38; since then versions that differ in build metadata are equal.

Each share of a device that allows multiple allocations counts as a separate device, as in kube-scheduler's allocator
since 1.37. Kubernetes 1.36 compares the devices of one request only with the last one of them.
"""

from dra.engine.allocator.claims_to_allocate import Constraint
from dra.engine.allocator.resource_slice_tracker import AttributeValues, CandidateDevice
from dra.engine.devices.allocator_releases import AllocatorRelease


class UnusableAttributeError(Exception):
    """An attribute whose value the allocator cannot compare: no device is allocated to the pod."""


class ConstraintTracker:
    """The values that the picked devices have for the attribute of one constraint."""

    def __init__(self, claim: int, constraint: Constraint, release: AllocatorRelease) -> None:
        self.claim = claim
        self.constraint = constraint
        self._release = release
        self._values: list[AttributeValues] = []
        self._common: list[AttributeValues] = []
        """For each picked device, the values that it shares with all devices picked before."""

    def admits(self, candidate: CandidateDevice) -> bool:
        """Report whether a device satisfies the constraint together with the picked devices.

        Raises UnusableAttributeError.
        """
        values = self.values_of(candidate)
        if values is None:
            attribute = self.constraint.attribute
            if self._release.unusable_attributes_are_fatal and candidate.attribute(attribute) is not None:
                raise UnusableAttributeError(f"device {candidate.item}: unsupported attribute value for {attribute}")
            return False
        if self.constraint.distinct:
            return not any(_have_common_value(values, other) for other in self._values)
        return not self._common or _have_common_value(values, self._common[-1])

    def add(self, candidate: CandidateDevice) -> None:
        """Add a device that was picked."""
        typed_values = self.values_of(candidate)
        assert typed_values is not None, "a device without the attribute is not admitted"  # noqa: S101
        kind, values = typed_values
        self._values.append(typed_values)
        self._common.append((kind, values & self._common[-1][1]) if self._common else typed_values)

    def values_of(self, candidate: CandidateDevice) -> AttributeValues | None:
        """Return the values of a device that the constraint compares; None if there are none."""
        return candidate.attribute_values(self.constraint.attribute, self._release)

    def remove(self) -> None:
        """Remove the device that was picked last."""
        self._values.pop()
        self._common.pop()


def _have_common_value(one: AttributeValues, other: AttributeValues) -> bool:
    return one[0] == other[0] and not one[1].isdisjoint(other[1])
