"""Checks whether a controller is installed and works: by its Lease, and by the Deployment that runs its replicas.

The Lease shows a leader for 15 s after its end, and it stays when the Deployment is gone. The Deployment shows whether
its replicas are Ready, but a controller may also run outside of the cluster. Both are read.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from dra.api.rbac import NAMESPACE
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.snapshots.deployment_reader import COMPONENT, CONTROLLER, NAME_SELECTOR, list_deployments
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, InstalledDeployment
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import SafeCommand, WeighedChoice, without_commands
from dra.kube.client import Client, Selection
from dra.kube.errors import Forbidden
from dra.kube.resources import PODS
from dra.model.diagnosed_pods import ContainerState
from dra.model.meta import ObjectMeta, Struct

CHECK: Final = "controller"

POD_SELECTOR: Final = f"{NAME_SELECTOR},{COMPONENT}={CONTROLLER}"


class _ContainerStatus(Struct, frozen=True):
    state: ContainerState = ContainerState()


class _ReplicaStatus(Struct, frozen=True):
    container_statuses: list[_ContainerStatus] | None = None


class ControllerPod(Struct, frozen=True):
    """A pod of the controller, reduced to what its containers wait for."""

    metadata: ObjectMeta
    status: _ReplicaStatus = _ReplicaStatus()

    @property
    def waits_for(self) -> Iterator[str]:
        """The reasons for which its containers wait."""
        for container in self.status.container_statuses or ():
            if container.state.waiting is not None and container.state.waiting.reason:
                yield container.state.waiting.reason


class ControllerInstallation(Struct, frozen=True):
    """The Lease and the Deployments of a controller, as the cluster shows them."""

    lease: ControllerLease
    deployments: tuple[InstalledDeployment, ...] = ()
    waiting: tuple[str, ...] = ()
    """Reasons for which containers of the controller wait, each once."""

    unread: str = ""
    """Error of a read that was refused; empty if all could be read."""

    @property
    def exists(self) -> bool:
        """Whether anything shows that a controller is installed, or was; also where that could not be read."""
        return bool(self.deployments or self.unread) or self.lease.presence is not ControllerPresence.ABSENT


async def find_deployments(client: Client) -> list[InstalledDeployment]:
    """Return the Deployments of the controller in all namespaces; raise ApiError."""
    return [deployment async for deployment in list_deployments(client) if deployment.component == CONTROLLER]


async def find_installation(client: Client, lease: ControllerLease) -> ControllerInstallation:
    """Read the Deployments, and what their containers wait for; raise ApiError."""
    try:
        deployments = await find_deployments(client)
        waiting: dict[str, None] = {}
        for namespace in dict.fromkeys(deployment.namespace for deployment in deployments):
            selection = Selection(namespace=namespace, labels=POD_SELECTOR)
            async for page in client.list_pages(PODS, ControllerPod, selection=selection):
                waiting |= {reason: None for pod in page.items for reason in pod.waits_for}
    except Forbidden as error:
        return ControllerInstallation(lease=lease, unread=str(error))
    return ControllerInstallation(lease=lease, deployments=tuple(deployments), waiting=tuple(waiting))


def judge_installation(installation: ControllerInstallation, *, replace: bool) -> CheckResult:
    """Judge whether a controller works; a cluster without any is ready for an installation."""
    if installation.deployments:
        return _judge_replicas(installation, installation.deployments)
    lease = installation.lease
    match lease.presence:
        case ControllerPresence.RUNNING:
            return CheckResult(check=CHECK, state=CheckState.OK, detail=f"{lease.holder} is running")
        case ControllerPresence.ABSENT if not installation.unread:
            mode = " --mode replace" if replace else ""
            remedy = (
                SafeCommand(f"kubectl dra install{mode}")
                if lease.name.startswith(f"{NAMESPACE}/")
                else WeighedChoice("install dra-reserve: see kubectl dra install --help")
            )
            return CheckResult(check=CHECK, state=CheckState.WARNING, detail="not installed", remedy=remedy)
        case ControllerPresence.STALE:
            return CheckResult(
                check=CHECK,
                state=CheckState.MISSING,
                detail=f"lease {lease.name} was last renewed {lease.seconds} s ago, and there is no Deployment of it",
                remedy=WeighedChoice("start the controller, or install it again: kubectl dra install --help"),
            )
        case _:
            unread = installation.unread or f"lease {lease.name} cannot be read"
            return CheckResult(check=CHECK, state=CheckState.UNKNOWN, detail=unread)


def _judge_replicas(installation: ControllerInstallation, deployments: Sequence[InstalledDeployment]) -> CheckResult:
    lease = installation.lease
    names = list_names(f"Deployment {deployment.name} -n {deployment.namespace}" for deployment in deployments)
    ready = sum(deployment.ready for deployment in deployments)
    desired = sum(deployment.desired for deployment in deployments)
    if not desired:
        remedy = WeighedChoice(
            f"scale {names} to 2 replicas, or remove the installation: kubectl dra uninstall --dry-run"
        )
        return CheckResult(
            check=CHECK, state=CheckState.MISSING, detail=f"{names} is scaled to 0 replicas", remedy=remedy
        )
    if not ready:
        causes = f": {without_commands(list_names(installation.waiting))}" if installation.waiting else ""
        namespace = deployments[0].namespace
        return CheckResult(
            check=CHECK,
            state=CheckState.MISSING,
            detail=f"0 of {desired} replicas of {names} are Ready{causes}",
            remedy=SafeCommand(f"kubectl describe pods -n {namespace} -l {POD_SELECTOR}"),
        )
    counted = f"{ready} of {desired} replicas Ready"
    if lease.presence is ControllerPresence.RUNNING:
        return CheckResult(check=CHECK, state=CheckState.OK, detail=f"{lease.holder} leads, {counted}")
    if lease.presence is ControllerPresence.UNKNOWN:
        detail = f"{counted}; lease {lease.name} cannot be read"
        return CheckResult(check=CHECK, state=CheckState.UNKNOWN, detail=detail)
    return CheckResult(
        check=CHECK,
        state=CheckState.WARNING,
        detail=f"{counted}, but none of them leads (lease {lease.name} is {lease.presence.value})",
        remedy=WeighedChoice(f"find out why: {page_url('runbooks/DraReserveNobodyLeads.md')}"),
    )
