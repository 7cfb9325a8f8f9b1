"""The differences between releases of kube-scheduler's allocator of devices.

No object of the API shows it, so callers go by the version of the API server: `allocator_release`. Kubernetes 1.38 made
another implementation the default ("stable", k8s.io/dynamic-resource-allocation/structured).
"""

import re
from typing import Final, NamedTuple


class AllocatorRelease(NamedTuple):
    """The decisions of the allocator of one release, where releases differ."""

    full_names: bool
    """Whether a capacity without a domain and one with the driver's domain are the same (k/k#142202)."""

    fractional: bool
    """Whether ranges of request policies are computed in thousandths (DRAFractionalCapacityRange)."""

    version_precedence: bool
    """Whether versions are compared by their precedence, which ignores build metadata, and not as text."""

    unusable_attributes_are_fatal: bool
    """Whether a constraint on an attribute without a usable value gives up the pod; otherwise the device is skipped."""

    unusable_pools_are_fatal: bool
    """Whether a request for all devices gives up the pod while a pool is updated or invalid (k/k#141898)."""

    init_overhead_ends: bool
    """Whether a device costs its node something for an init container only while that container runs.

    Up to 1.37 the overhead of each container counts all the time (component-helpers ``resource.PodRequests``).
    """


RELEASE_1_37: Final = AllocatorRelease(
    full_names=False,
    fractional=False,
    version_precedence=False,
    unusable_attributes_are_fatal=False,
    unusable_pools_are_fatal=True,
    init_overhead_ends=False,
)
"""The release up to 1.37. There, ``fractional`` is the choice of who passes ``--min-compatibility-version=1.37``."""

RELEASE_1_38: Final = AllocatorRelease(
    full_names=True,
    fractional=True,
    version_precedence=True,
    unusable_attributes_are_fatal=True,
    unusable_pools_are_fatal=False,
    init_overhead_ends=True,
)


def allocator_release(server: str) -> AllocatorRelease:
    """Return the release of the allocator for the version of an API server, such as ``v1.38.0``.

    A version that cannot be read counts as old: that refuses rather than promises.
    """
    read = re.match(r"v?1\.(\d{1,4})", server)
    return RELEASE_1_38 if read is not None and int(read[1]) >= 38 else RELEASE_1_37  # noqa: PLR2004 - of Kubernetes 1
