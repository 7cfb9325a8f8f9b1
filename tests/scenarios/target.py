"""The cluster that the scenarios run against: one started here, or one that exists; and what may be done to it.

DRA_CLUSTER decides: not set, there is none and the scenarios are left out; ``local``, one is started from
tests/cluster; ``plane-stock`` and ``plane-kep``, our own control plane (localplane) with kwok's nodes; ``existing``,
the one of KUBECONFIG is used, which the Makefile asks for when KUBECONFIG is set. So a KUBECONFIG that happens to be in
the environment is never touched by a plain pytest.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.run_folder import RunFolder

COMMAND: Final = "make test-cluster"


class Place(StrEnum):
    """Where the scenarios run."""

    NOWHERE = ""
    LOCAL = "local"
    PLANE_STOCK = "plane-stock"
    PLANE_KEP = "plane-kep"
    EXISTING = "existing"

    @classmethod
    def chosen(cls) -> Place:
        """Read DRA_CLUSTER; 1 is what one types, and means local."""
        value = os.environ.get("DRA_CLUSTER", "")
        try:
            place = cls.LOCAL if value == "1" else cls(value)
        except ValueError:
            known = ", ".join(filter(None, cls))
            raise pytest.UsageError(f"DRA_CLUSTER={value}: none of {known}") from None
        if place is cls.EXISTING and not os.environ.get("KUBECONFIG"):
            raise pytest.UsageError("DRA_CLUSTER=existing: KUBECONFIG must say which cluster that is")
        return place

    @property
    def api(self) -> str | None:
        """What API a plane of ours has: ``stock`` or ``kep``; None elsewhere."""
        name, _, api = self.value.partition("-")
        return api if name == "plane" else None


class Mode(StrEnum):
    """How our controller divides the work with the stock claim controller."""

    REPLACE = "replace"
    ALONGSIDE = "alongside"


EXISTING_MODE: Final = Mode(os.environ.get("DRA_CLUSTER_MODE", Mode.ALONGSIDE))
"""Existing clusters run the stock claim controller, unless their owner says that it is off."""


def only_mode(place: Place) -> Mode | None:
    """Return the mode of a place that has only one; a plane of ours has no claim controller but the one under test."""
    if place.api is not None:
        return Mode.REPLACE
    return EXISTING_MODE if place is Place.EXISTING else None


class Capability(StrEnum):
    """What a scenario may need to do that not every cluster allows; named by ``@pytest.mark.needs(...)``."""

    COMPONENTS = "components"
    """Stop, start and freeze the scheduler and the other components, through `Target.cluster`."""
    RIGHTS = "rights"
    """Take rights away from the controller: the server enforces them."""
    KUBELET = "a kubelet"
    """Pods really run, on a node that a kubelet and containerd make of this machine: the fixture `real_node`."""
    STOCK_EVICTION = "stock eviction"
    """Stock controllers evict pods from tainted devices."""
    KEP_FIELDS = "the fields of KEP-5194"
    """`spec.reservedFor` and `status.allocation.reservedForAnyPod` are fields; no real server has them."""
    POLICIES = "admission policies"
    """The server evaluates ValidatingAdmissionPolicies."""
    PREEMPTION = "preemption"
    """The scheduler makes pods leave for others of higher priority."""
    EXACT_BYTES = "exact bytes"
    """The server stores parameters for drivers as they were sent, space for space."""


def capabilities(place: Place) -> frozenset[Capability]:
    """Return what may be done in a place."""
    real = frozenset(Capability) - {Capability.KEP_FIELDS}
    match place:
        case Place.LOCAL:
            return real
        case Place.EXISTING:
            return real - {Capability.COMPONENTS, Capability.KUBELET}
        case Place.PLANE_KEP:
            return frozenset({Capability.KEP_FIELDS})
        case _:
            return frozenset()


@dataclass(frozen=True, kw_only=True)
class Target:
    """A running cluster, in one mode."""

    mode: Mode
    admin: Path
    """The kubeconfig of the scenarios themselves."""
    controller: Path
    """The kubeconfig of the controller under test."""
    folder: RunFolder
    """Where processes and files of the run belong."""
    own: Cluster | None
    """The cluster with its components, if it is one of ours."""

    @property
    def cluster(self) -> Cluster:
        """The components; for scenarios that need `Capability.COMPONENTS`."""
        assert self.own is not None, "say @pytest.mark.needs(Capability.COMPONENTS)"
        return self.own
