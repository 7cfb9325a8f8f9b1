"""Lists the releases of Kubernetes that a plane can emulate, and the table of their differences.

No other module knows versions: code that depends on the release reads a trait by name, never a version number. To add
a release, add a member to `Release`, its row to `TRAITS`, and the new behavior where the trait is read. Source: the
CHANGELOGs and the code of Kubernetes 1.36.3, 1.37.2 and 1.38.0-beta.0.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The differences between releases, with default feature gates."""

    version: str
    """The full version, which nodes report as kubeletVersion: ``v1.37.2``."""

    device_taint_rules: bool
    """Whether ``devicetaintrules`` are served in resource.k8s.io/v1 (DRADeviceTaintRules: on since 1.37)."""

    slice_pool_name_selectable: bool
    """Whether ResourceSlices can be selected by the field ``spec.pool.name`` (since 1.37; before that: 400)."""

    generated_validation: bool
    """Whether generated code (``+k8s:`` tags) validates claims: same rules, other messages (enforced since 1.37)."""

    refuses_pods_while_unpreparing: bool
    """Whether a kubelet refuses new pods of a claim from the start of NodeUnprepareResources to its success (1.37)."""

    health_requires_registration: bool
    """Whether a kubelet opens a health stream only to plugins that register the health service (1.37)."""

    empty_budgets_match: bool
    """Whether kube-scheduler's preemption heeds PodDisruptionBudgets with an empty selector (since 1.38)."""

    extenders_may_add_victims: bool
    """Whether extenders are asked for victims on nodes without any, which only an extender refuses (since 1.38)."""

    stricter_devices: bool
    """Whether odd names, versions and node selectors of devices, and odd capacities of claims, are refused (1.38).

    An update of a ResourceSlice that leaves its devices as they are does not have them checked then.
    """

    stricter_bindings: bool
    """Whether the labels and annotations of a Binding are checked before its pod gets them (since 1.38)."""

    names_gated_fields: bool
    """Whether the refusal of a pod's update names the fields that change while the pod is gated (since 1.38)."""

    declared_priorities: bool
    """Whether a changed value of a PriorityClass is refused in the words of all immutable fields (since 1.38)."""

    refuses_malformed_revisions: bool
    """Whether a GET of an object at a malformed resourceVersion is 422; before 1.38 it is an internal error."""

    warns_of_empty_selectors: bool
    """Whether the writer of a DeviceTaintRule that selects all devices of the cluster is warned (since 1.38)."""

    typed_shortages: bool
    """Whether lists and texts of custom resources that are too short have errors of their own types (since 1.38)."""

    json_not_found: bool
    """Whether a path that nothing serves is answered with a Status, and not with plain text (since 1.38)."""

    tells_revisions: bool
    """Whether deletions, bindings and evictions are answered with the resourceVersion that they made (since 1.38)."""

    post_filter: str
    """Message of kube-scheduler's PostFilter if no claim can be deallocated; empty since 1.37."""


class Release(StrEnum):
    """Emulated minor versions of Kubernetes: the values of ``--kubernetes``."""

    V1_36 = "1.36"
    V1_37 = "1.37"
    V1_38 = "1.38"

    @property
    def minor(self) -> int:
        """Return the minor version, as in ``/version``."""
        return int(self.value.partition(".")[2])

    @property
    def traits(self) -> Traits:
        """Return the row of `TRAITS` for the release."""
        return TRAITS[self]


TRAITS: Final = MappingProxyType(
    {
        Release.V1_36: Traits(
            version="v1.36.3",
            device_taint_rules=False,
            slice_pool_name_selectable=False,
            generated_validation=False,
            refuses_pods_while_unpreparing=False,
            health_requires_registration=False,
            empty_budgets_match=False,
            extenders_may_add_victims=False,
            stricter_devices=False,
            stricter_bindings=False,
            names_gated_fields=False,
            declared_priorities=False,
            refuses_malformed_revisions=False,
            warns_of_empty_selectors=False,
            typed_shortages=False,
            json_not_found=False,
            tells_revisions=False,
            post_filter="still not schedulable",
        ),
        Release.V1_37: Traits(
            version="v1.37.2",
            device_taint_rules=True,
            slice_pool_name_selectable=True,
            generated_validation=True,
            refuses_pods_while_unpreparing=True,
            health_requires_registration=True,
            empty_budgets_match=False,
            extenders_may_add_victims=False,
            stricter_devices=False,
            stricter_bindings=False,
            names_gated_fields=False,
            declared_priorities=False,
            refuses_malformed_revisions=False,
            warns_of_empty_selectors=False,
            typed_shortages=False,
            json_not_found=False,
            tells_revisions=False,
            post_filter="",
        ),
        Release.V1_38: Traits(
            version="v1.38.0",
            device_taint_rules=True,
            slice_pool_name_selectable=True,
            generated_validation=True,
            refuses_pods_while_unpreparing=True,
            health_requires_registration=True,
            empty_budgets_match=True,
            extenders_may_add_victims=True,
            stricter_devices=True,
            stricter_bindings=True,
            names_gated_fields=True,
            declared_priorities=True,
            refuses_malformed_revisions=True,
            warns_of_empty_selectors=True,
            typed_shortages=True,
            json_not_found=True,
            tells_revisions=True,
            post_filter="",
        ),
    }
)

NEWEST: Final = Release.V1_37
"""The newest release on which all scenarios have passed: the default."""


def is_older(version: str, release: Release) -> bool:
    """Return whether a server's version is older than a release; a version that cannot be parsed is not."""
    minor = _minor(version)
    return minor is not None and minor < release.minor


def nearest_release(version: str) -> Release:
    """Return the release nearest to a server's version: the oldest for ``v1.35.4``, the last for ``v1.40.0``.

    A version that cannot be parsed counts as `NEWEST`.
    """
    minor = _minor(version)
    if minor is None:
        return NEWEST
    older = [release for release in Release if release.minor <= minor]
    return older[-1] if older else Release.V1_36


def _minor(version: str) -> int | None:
    major, _, rest = version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    return int(minor) if major == "1" and minor.isdecimal() else None
