"""Reduces what a cluster says of itself to facts that may be published: versions, numbers and known names.

Nothing is passed on because it looks harmless: a text of the cluster is compared with a closed set, or only the part
that matches a pattern of digits is kept. So no name of a namespace, node, host, registry or image can be in a report,
wherever somebody has put it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from dra.engine.diagnosis.snapshot import InstalledDeployment

OTHER: Final = "other"

PLATFORMS: Final[Mapping[str, str]] = {
    r"-gke\.[0-9]{1,9}": "GKE",
    r"-eks-[0-9a-f]{7,16}": "EKS",
    r"\+k3s[0-9]{1,3}": "k3s",
    r"\+rke2r[0-9]{1,3}": "RKE2",
}
"""Suffix of a version → platform, for platforms whose suffixes have no free text."""

PROVIDERS: Final = frozenset(
    {"aws", "azure", "digitalocean", "gce", "hcloud", "ibm", "k3s", "kind", "openstack", "vsphere"}
)
"""Schemes of ``spec.providerID`` of a Node."""

RUNTIMES: Final = frozenset({"containerd", "cri-o", "docker"})
ARCHITECTURES: Final = frozenset({"amd64", "arm64", "ppc64le", "s390x"})
COMPONENTS: Final = frozenset({"controller", "descheduler", "extender", "page", "profiles"})

DRIVERS: Final = frozenset(
    {
        "compute-domain.nvidia.com",
        "cpu.reserve.dra",
        "dra.cpu",
        "dra.net",
        "gpu.amd.com",
        "gpu.example.com",
        "gpu.intel.com",
        "gpu.nvidia.com",
        "gpu.reserve.dra",
        "tpu.google.com",
    }
)
"""Drivers that anybody can install; the name of a driver of one's own may name a company."""

GATES: Final = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRAWorkloadResourceClaims",
    "DynamicResourceAllocation",
    "GenericWorkload",
    "MutatingAdmissionPolicy",
)
"""Feature gates of the API server that decide what works."""

WAITING_REASONS: Final = frozenset(
    {
        "ContainerCreating",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "PodInitializing",
        "RunContainerError",
        "SchedulerError",
        "SchedulingGated",
        "Unschedulable",
    }
)
"""Reasons of the scheduler and of the kubelet for which a pod waits."""

_VERSION: Final = re.compile(r"v?([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,4})(.*)", re.DOTALL)
_GATE: Final = re.compile(r'kubernetes_feature_enabled\{name="([A-Za-z0-9]{1,64})"[^}\n]*\} ([01])(?:\.0)?\s')


def version_text(text: str) -> str:
    """Return the digits of a version, with the suffix of a known platform."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return OTHER
    digits, suffix = match.groups()
    return f"v{digits}" + (suffix if platform_of(text) != OTHER else "")


def platform_of(text: str) -> str:
    """Return the platform that the suffix of a version names."""
    match = _VERSION.fullmatch(text)
    suffix = match.group(2) if match is not None else ""
    return next((name for pattern, name in PLATFORMS.items() if re.fullmatch(pattern, suffix)), OTHER)


def runtime_text(text: str) -> str:
    """Return name and version of a container runtime such as ``containerd://2.1.4``."""
    name, _, version = text.partition("://")
    return f"{name} {version_text(version)}" if name in RUNTIMES else OTHER


def known(name: str, among: Iterable[str]) -> str:
    """Return a name if it is one of a closed set."""
    return name if name in among else OTHER


def provider_of(provider_id: str) -> str:
    """Return the scheme of a node's ``spec.providerID``; the rest names the account and the machine."""
    return known(provider_id.partition("://")[0], PROVIDERS) if provider_id else "none"


def counted(texts: Iterable[str]) -> dict[str, int]:
    """Return how often each text occurs, in the order of the texts."""
    return dict(sorted(Counter(texts).items()))


def feature_gates(metrics: str) -> dict[str, bool]:
    """Return the gates of `GATES` that the metrics of an API server show."""
    shown = {name: value == "1" for name, value in _GATE.findall(metrics)}
    return {name: shown[name] for name in GATES if name in shown}


def component_facts(deployments: Iterable[InstalledDeployment]) -> list[dict[str, str | int]]:
    """Return the components of dra-reserve with their replicas."""
    return [
        {"component": known(deployment.component, COMPONENTS), "ready": deployment.ready, "desired": deployment.desired}
        for deployment in deployments
    ]
