"""Checks what requests in Koordinator's form need: the policies of deploy/koordinator, and the DeviceClasses.

The permissions of the controller (`RolePurpose.KOORDINATOR`) are reviewed with all others.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from dra.api.koordinator.well_known import CPU_DRIVER, ENABLED, GPU_DRIVER, LABEL_ENABLED
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client, Selection
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import DEVICE_CLASSES, NAMESPACES, PRIORITY_CLASSES, Resource
from dra.model.meta import PartialObjectMetadata, Struct
from dra.model.references import GroupResource

CHECK: Final = "Koordinator requests"

ADMISSION: Final = "admissionregistration.k8s.io"

MUTATING_POLICIES: Final = "mutatingadmissionpolicies"

POLICIES: Final = (
    (MUTATING_POLICIES, "koordinator-requests.reserve.dra"),
    ("validatingadmissionpolicies", "koordinator-requests.reserve.dra"),
    ("validatingadmissionpolicies", "koordinator-classes.reserve.dra"),
    ("validatingadmissionpolicies", "reports.reserve.dra"),
    ("validatingadmissionpolicies", "controller-templates.reserve.dra"),
    ("validatingadmissionpolicies", "controller-evictions.reserve.dra"),
)
"""The policies of deploy/koordinator; each has a binding of the same name."""

PRIORITY_CLASS_NAMES: Final = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
"""The PriorityClasses of deploy/koordinator-priority-classes, which Koordinator's users name in their pods."""

ENABLING_LABEL: Final = f"{LABEL_ENABLED}={ENABLED}"


class KoordinatorInstallation(Struct, frozen=True):
    """The parts of an installation of deploy/koordinator, as far as they could be read."""

    translates: bool = True
    """Whether the API server serves MutatingAdmissionPolicy v1, which translates pods on admission."""

    present: tuple[str, ...] = ()
    """Policies and bindings that exist, as ``PLURAL/NAME``."""

    missing: tuple[str, ...] = ()
    missing_classes: tuple[str, ...] = ()
    missing_priority_classes: tuple[str, ...] = ()
    enabled_namespaces: int = 0
    unread: str = ""
    """Error of a read that was refused; empty if all could be read."""

    @property
    def exists(self) -> bool:
        """Whether a user has begun to install the parts, or to label namespaces."""
        return bool(self.present or self.enabled_namespaces)


async def find_installation(client: Client, discovery: Discovery) -> KoordinatorInstallation:
    """Read which parts exist."""
    wanted = [(plural, name) for policies, name in POLICIES for plural in (policies, _bindings(policies))]
    plurals = sorted({plural for plural, _ in wanted})
    served = dict(
        zip(
            plurals,
            await asyncio.gather(*(discovery.resolve(GroupResource(resource=p, group=ADMISSION)) for p in plurals)),
            strict=True,
        )
    )
    kinds = {plural: kind for plural, kind in served.items() if kind is not None and kind.version == "v1"}
    known = [(plural, name) for plural, name in wanted if plural in kinds]
    try:
        there = await asyncio.gather(*(_exists(client, kinds[plural], name) for plural, name in known))
        classes = (CPU_DRIVER, GPU_DRIVER)
        classes_there = await asyncio.gather(*(_exists(client, DEVICE_CLASSES, name) for name in classes))
        priorities_there = await asyncio.gather(
            *(_exists(client, PRIORITY_CLASSES, name) for name in PRIORITY_CLASS_NAMES)
        )
        selection = Selection(labels=ENABLING_LABEL)
        enabled = 0
        async for page in client.list_pages(NAMESPACES, PartialObjectMetadata, selection=selection):
            enabled += len(page.items)
    except Forbidden as error:
        return KoordinatorInstallation(translates=MUTATING_POLICIES in kinds, unread=str(error))
    return KoordinatorInstallation(
        translates=MUTATING_POLICIES in kinds,
        present=tuple(f"{p}/{name}" for (p, name), exists in zip(known, there, strict=True) if exists),
        missing=tuple(f"{p}/{name}" for (p, name), exists in zip(known, there, strict=True) if not exists),
        missing_classes=tuple(name for name, exists in zip(classes, classes_there, strict=True) if not exists),
        missing_priority_classes=tuple(
            name for name, exists in zip(PRIORITY_CLASS_NAMES, priorities_there, strict=True) if not exists
        ),
        enabled_namespaces=enabled,
    )


def _bindings(policies: str) -> str:
    return f"{policies.removesuffix('policies')}policybindings"


async def _exists(client: Client, kind: Resource, name: str) -> bool:
    try:
        await client.get(kind, ("", name), PartialObjectMetadata)
    except NotFound:
        return False
    return True


def judge_installation(installed: KoordinatorInstallation, *, wanted: bool) -> CheckResult:
    """Judge an installation; without one, whether that matters depends on ``wanted``."""
    if installed.unread:
        return CheckResult(check=CHECK, state=CheckState.UNKNOWN, detail=installed.unread)
    if not (installed.exists or wanted):
        return CheckResult(check=CHECK, state=CheckState.OK, detail="not installed (the default)")
    problem = next(_problems(installed), None)
    if problem is not None:
        return problem
    detail = f"all policies are installed; namespaces labelled {ENABLING_LABEL}: {installed.enabled_namespaces}"
    return CheckResult(check=CHECK, state=CheckState.OK, detail=detail)


def _problems(installed: KoordinatorInstallation) -> Iterator[CheckResult]:
    """Yield what is wrong, the most important first."""
    if installed.missing:
        yield CheckResult(
            check=CHECK,
            state=CheckState.MISSING,
            detail=f"missing: {', '.join(installed.missing)}",
            remedy=WeighedChoice(
                "install component koordinator, or set koordinator.enabled in the values of the chart"
            ),
        )
    if not installed.translates:
        yield _warning(
            "MutatingAdmissionPolicy v1 is not served (requires 1.36): no pod is translated on admission",
            f"let the plugin translate manifests: {page_url('how-to/koordinator.md')}",
        )
    if installed.missing_classes:
        yield _warning(
            f"missing: DeviceClass {', '.join(installed.missing_classes)}; pods whose claims name it stay Pending",
            "install component kubelet-plugin, or its DeviceClasses alone",
        )
    if installed.missing_priority_classes:
        yield _warning(
            f"missing: PriorityClass {', '.join(installed.missing_priority_classes)}; the API server refuses pods that "
            "name it",
            "install component koordinator-priority-classes, or koordinator.priorityClasses of the chart, if pods of "
            "your users name it",
        )
    if not installed.enabled_namespaces:
        yield _warning(
            f"the policies are installed, but no namespace is labelled {ENABLING_LABEL}",
            "label the namespaces of pods with such requests",
        )


def _warning(detail: str, remedy: str) -> CheckResult:
    return CheckResult(check=CHECK, state=CheckState.WARNING, detail=detail, remedy=WeighedChoice(remedy))
