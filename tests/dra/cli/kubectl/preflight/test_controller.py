"""Whether a controller is installed and works, by its Lease and its Deployment."""

import pytest

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight import controller
from dra.cli.kubectl.preflight.controller import ControllerInstallation
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, InstalledDeployment
from dra.engine.messages.remedies import SafeCommand
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH, Request
from localplane.objects import decode, encode
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.violations import for_each_case


def lease(presence, namespace="dra-reserve"):
    return ControllerLease(presence=presence, name=f"{namespace}/dra-reserve-controller", holder="c-0", seconds=26)


def deployment(*, ready, replicas=2):
    return InstalledDeployment(
        namespace="dra-reserve",
        name="dra-reserve-controller",
        component="controller",
        desired=replicas,
        ready=ready,
    )


ABSENT, STALE, RUNNING, UNKNOWN = (
    ControllerPresence.ABSENT,
    ControllerPresence.STALE,
    ControllerPresence.RUNNING,
    ControllerPresence.UNKNOWN,
)


@for_each_case(
    [
        pytest.param(
            ControllerInstallation(lease=lease(RUNNING), deployments=(deployment(ready=2),)),
            CheckState.OK,
            "c-0 leads, 2 of 2 replicas Ready",
            id="works",
        ),
        pytest.param(
            ControllerInstallation(
                lease=lease(ABSENT), deployments=(deployment(ready=0),), waiting=("ImagePullBackOff",)
            ),
            CheckState.MISSING,
            "0 of 2 replicas of Deployment dra-reserve-controller -n dra-reserve are Ready: ImagePullBackOff",
            id="never-started",
        ),
        pytest.param(
            ControllerInstallation(lease=lease(RUNNING), deployments=(deployment(ready=0),)),
            CheckState.MISSING,
            "0 of 2 replicas of Deployment dra-reserve-controller -n dra-reserve are Ready",
            id="died-a-moment-ago",
        ),
        pytest.param(
            ControllerInstallation(lease=lease(STALE), deployments=(deployment(ready=0, replicas=0),)),
            CheckState.MISSING,
            "Deployment dra-reserve-controller -n dra-reserve is scaled to 0 replicas",
            id="scaled-to-none",
        ),
        pytest.param(
            ControllerInstallation(lease=lease(STALE), deployments=(deployment(ready=2),)),
            CheckState.WARNING,
            "2 of 2 replicas Ready, but none of them leads (lease dra-reserve/dra-reserve-controller is stale)",
            id="nobody-leads",
        ),
        pytest.param(
            ControllerInstallation(lease=lease(RUNNING)), CheckState.OK, "c-0 is running", id="outside-of-the-cluster"
        ),
        pytest.param(ControllerInstallation(lease=lease(ABSENT)), CheckState.WARNING, "not installed", id="none"),
        pytest.param(
            ControllerInstallation(lease=lease(STALE)),
            CheckState.MISSING,
            "lease dra-reserve/dra-reserve-controller was last renewed 26 s ago, and there is no Deployment of it",
            id="deleted",
        ),
        pytest.param(
            ControllerInstallation(lease=lease(ABSENT), unread="deployments.apps is forbidden"),
            CheckState.UNKNOWN,
            "deployments.apps is forbidden",
            id="no-right-to-look",
        ),
        pytest.param(
            ControllerInstallation(lease=lease(UNKNOWN)),
            CheckState.UNKNOWN,
            "lease dra-reserve/dra-reserve-controller cannot be read",
            id="the-lease-is-secret",
        ),
    ]
)
def test_the_controller_is_judged_by_its_replicas_and_its_lease(found, verdict, detail):
    """A controller with 0 of 2 replicas Ready passed unnoticed, with exit code 0."""
    judged = controller.judge_installation(found, replace=False)
    assert (judged.state, judged.detail) == (verdict, detail)
    assert (judged.remedy is not None) == (verdict in {CheckState.MISSING, CheckState.WARNING})


@pytest.mark.parametrize(
    ("replace", "printed"), [(False, "kubectl dra install"), (True, "kubectl dra install --mode replace")]
)
def test_before_an_installation_the_command_that_installs_is_printed(replace, printed):
    judged = controller.judge_installation(ControllerInstallation(lease=lease(ABSENT)), replace=replace)
    assert judged.remedy == SafeCommand(printed)


def test_a_namespace_that_no_command_installs_into_gets_no_command():
    found = ControllerInstallation(lease=lease(ABSENT, namespace="elsewhere"))
    assert not isinstance(controller.judge_installation(found, replace=False).remedy, SafeCommand)


async def test_the_replicas_and_what_they_wait_for_are_read_from_the_cluster():
    server = ApiServer(api=Dialect.STOCK, random=seeded(1))

    async def request(method, path, body, kind="application/json"):
        answer = await server.handle(
            Request(method=method, path=path, body=encode(body), content_type=kind, timeout=5.0)
        )
        assert answer.status < 300, answer.body
        return decode(answer.body)

    labels = {"app.kubernetes.io/name": "dra-reserve"}
    await request("POST", "/api/v1/namespaces", {"metadata": {"name": "dra-reserve"}})
    pods = "/api/v1/namespaces/dra-reserve/pods"
    await request("POST", "/api/v1/namespaces/dra-reserve/serviceaccounts", {"metadata": {"name": "default"}})
    for component in ("controller", "extender"):
        mine = labels | {"app.kubernetes.io/component": component}
        containers = [{"name": "main", "image": "x"}]
        template = {"metadata": {"labels": mine}, "spec": {"containers": containers}}
        meta = {"name": f"dra-reserve-{component}", "labels": labels}
        spec = {"replicas": 2, "selector": {"matchLabels": mine}, "template": template}
        await request("POST", "/apis/apps/v1/namespaces/dra-reserve/deployments", {"metadata": meta, "spec": spec})
        pod = {"metadata": {"name": component, "labels": mine}, "spec": {"containers": containers}}
        await request("POST", pods, pod)
        waits = {"state": {"waiting": {"reason": f"ImagePullBackOff-{component}"}}, "name": "main", "image": "x"}
        waits |= {"imageID": "", "ready": False, "restartCount": 0}
        await request("PATCH", f"{pods}/{component}/status", {"status": {"containerStatuses": [waits]}}, MERGE_PATCH)
    client = Client(LocalTransport(server), RateLimiter(1e6, 1e6))
    installation = await controller.find_installation(client, lease(ABSENT))
    assert installation.deployments == (deployment(ready=0),)
    assert installation.waiting == ("ImagePullBackOff-controller",)
