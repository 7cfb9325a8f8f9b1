"""Which version of Kubernetes a plane behaves as, and the table of what differs: the only place that knows.

Whoever depends on the version asks for a trait by name, never for a number. To add a version: a member of `Release`,
its row in `TRAITS`, and what is new in it where the trait is asked for. Source: the CHANGELOGs and the code of
Kubernetes 1.36.3 and 1.37.1.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What differs from one version to the next, with default feature gates."""

    version: str
    """``gitVersion``, and what nodes report as that of their kubelets."""

    device_taint_rules: bool
    """Whether ``devicetaintrules`` are served in resource.k8s.io/v1 (DRADeviceTaintRules: on since 1.37)."""

    slice_pool_name_selectable: bool
    """Whether ResourceSlices can be selected by the field ``spec.pool.name`` (since 1.37; before that: 400)."""

    generated_validation: bool
    """Whether claims are checked by generated code (``+k8s:`` tags): same rules, other texts (enforced since 1.37)."""

    refuses_pods_while_unpreparing: bool
    """Whether a kubelet refuses new pods of a claim from the start of NodeUnprepareResources to its success (1.37)."""

    health_requires_registration: bool
    """Whether a kubelet opens a health stream only with plugins that tell of the service when they register (1.37)."""

    post_filter: str
    """What kube-scheduler's PostFilter adds where no claim can be deallocated; nothing since 1.37."""


class Release(StrEnum):
    """Minor versions of Kubernetes: the values of ``--kubernetes``."""

    V1_36 = "1.36"
    V1_37 = "1.37"

    @property
    def minor(self) -> int:
        """``minor`` in ``/version``."""
        return int(self.value.partition(".")[2])

    @property
    def traits(self) -> Traits:
        """The row of the table."""
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
            post_filter="still not schedulable",
        ),
        Release.V1_37: Traits(
            version="v1.37.1",
            device_taint_rules=True,
            slice_pool_name_selectable=True,
            generated_validation=True,
            refuses_pods_while_unpreparing=True,
            health_requires_registration=True,
            post_filter="",
        ),
    }
)

NEWEST: Final = Release.V1_37


def nearest_release(version: str) -> Release:
    """Return the release that behaves as a server does: for ``v1.35.4`` the oldest, for ``v1.40.0`` the newest.

    A version that cannot be read counts as the newest.
    """
    major, _, rest = version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    if major != "1" or not minor.isdecimal():
        return NEWEST
    older = [each for each in Release if each.minor <= int(minor)]
    return older[-1] if older else Release.V1_36
