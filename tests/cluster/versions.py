"""Which version of Kubernetes serves what: in which version of its API group a kind is, where they differ.

Both kinds came with feature gates. What is enabled by ``--runtime-config`` must be what the API server knows:
kube-apiserver 1.37 does not start with ``scheduling.k8s.io/v1alpha2=true``.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Kind(Enum):
    """A kind, and the ``apiVersion`` of its objects by the first minor version of Kubernetes 1 that has it."""

    DEVICE_TAINT_RULE = ((33, "resource.k8s.io/v1alpha3"), (36, "resource.k8s.io/v1beta2"), (37, "resource.k8s.io/v1"))
    """Alpha in 1.33, beta and off by default in 1.36, stable and on by default in 1.37."""

    POD_GROUP = ((36, "scheduling.k8s.io/v1alpha2"), (37, "scheduling.k8s.io/v1beta1"))
    """Off by default in all of them; 1.37 has no v1alpha2 any more."""

    def __init__(self, *since: tuple[int, str]) -> None:
        self.since: Final = since

    def api_version(self, kubernetes: str) -> str:
        """Return the version to use on a Kubernetes such as v1.36.3; where there is none yet, the first there was."""
        _, oldest = self.since[0]
        return next((version for first, version in reversed(self.since) if first <= minor(kubernetes)), oldest)


def minor(kubernetes: str) -> int:
    """Return 36 for v1.36.3, 1.36 and v1.36.3+vendor; raises ValueError for what is no version of Kubernetes 1."""
    found = re.match(r"v?1\.(\d+)", kubernetes)
    if found is None:
        raise ValueError(f"{kubernetes!r}: not a version of Kubernetes 1")
    return int(found[1])


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that versions are compared by: (1, 36, 3) for v1.36.3+vendor, (1, 36) for 1.36."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
