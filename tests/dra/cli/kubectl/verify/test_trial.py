"""The trial with one pod, step by step."""

import msgspec
import pytest
import yaml

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.verify.command import run_reported_trial
from dra.cli.kubectl.verify.trial import (
    Step,
    TrialOptions,
    TrialPod,
    TrialResult,
    manifests,
    run_trial,
    seen_steps,
)
from dra.kube.client import Client
from dra.kube.errors import NotFound
from dra.kube.rate_limiter import RateLimiter
from dra.model.claims import ResourceClaim
from localplane.transport import LocalTransport
from tests.localplane.components import Plane

VIRTUAL_TIME = True
POD = {"resource": "pods", "name": "p", "uid": "u"}
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "verify", "uid": "j"}
BEGINNING = {Step.POD_CREATED, Step.DEVICE_ALLOCATED, Step.JOB_LISTED, Step.POD_STARTED}


def claim(*listed, allocated=True):
    status = {"allocation": {"devices": {"results": []}}} if allocated else {}
    return msgspec.convert({"metadata": {"name": "verify"}, "status": status | {"reservedFor": listed}}, ResourceClaim)


def pod(phase="Pending", *, condition=None, waiting=""):
    state = {"state": {"waiting": {"reason": waiting}}} if waiting else {}
    status = {"phase": phase, "conditions": [condition] if condition else [], "containerStatuses": [state]}
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, TrialPod)


@pytest.mark.parametrize(
    ("of", "pods", "before", "seen"),
    [
        pytest.param(claim(allocated=False), [], set(), set(), id="nothing"),
        pytest.param(claim(allocated=False), [pod()], set(), {Step.POD_CREATED}, id="created"),
        pytest.param(claim(POD), [pod()], set(), {Step.POD_CREATED, Step.DEVICE_ALLOCATED}, id="allocated"),
        pytest.param(claim(POD, JOB), [pod("Running")], set(), BEGINNING, id="running"),
        pytest.param(
            claim(allocated=False),
            [pod("Succeeded")],
            BEGINNING,
            {Step.POD_CREATED, Step.POD_STARTED, Step.POD_ENDED, Step.DEVICE_FREED},
            id="freed",
        ),
        pytest.param(
            claim(allocated=False),
            [pod("Succeeded")],
            set(),
            {Step.POD_CREATED, Step.POD_STARTED, Step.POD_ENDED},
            id="a-device-that-was-never-there-is-not-freed",
        ),
    ],
)
def test_which_steps_claim_and_pod_show(of, pods, before, seen):
    assert seen_steps(of, pods, before=before) == seen


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(pod(waiting="ImagePullBackOff"), "ImagePullBackOff", id="the-kubelet"),
        pytest.param(
            pod(condition={"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}),
            "Unschedulable",
            id="the-scheduler",
        ),
        pytest.param(pod(waiting="host-7.acme.example"), "other", id="a-reason-of-somebody"),
        pytest.param(pod(), "", id="none"),
    ],
)
def test_why_the_pod_waits(found, reason):
    assert found.waits_for == reason


def test_the_first_missing_step_is_told():
    assert TrialResult(seconds={Step.POD_CREATED: 0.1}).missing is Step.DEVICE_ALLOCATED
    assert TrialResult(seconds=dict.fromkeys(Step, 1.0)).missing is None


@pytest.mark.parametrize(("own_user", "user"), [(True, 65534), (False, None)])
def test_the_pod_has_no_rights_and_where_the_platform_assigns_users_it_names_none(own_user, user):
    _, job = manifests(TrialOptions(device_class="c", image="i", timeout=1.0, own_user=own_user))
    spec = job["spec"]["template"]["spec"]
    assert spec["securityContext"].get("runAsUser") == user
    assert spec["automountServiceAccountToken"] is False


async def test_the_namespace_of_the_trial_goes_also_where_no_device_comes():
    plane = Plane()
    transport = LocalTransport(plane.server)
    connection = Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport, clock=plane.clock)
    options = TrialOptions(device_class="gpu.example.com", image="busybox", timeout=2.0)
    result = await run_trial(connection, options, report=lambda *_: None)
    assert result.missing is Step.POD_CREATED
    namespaces = await plane.user.list("namespaces")
    assert all("deletionTimestamp" in each["metadata"] for each in namespaces if "verify" in each["metadata"]["name"])


async def test_a_cluster_without_claims_is_an_error_and_leaves_no_namespace_but_a_report(tmp_path):
    plane = Plane()

    class WithoutClaims:
        async def handle(self, request):
            if "resourceclaims" in request.path:
                return await plane.server.handle(type(request)(method="GET", path="/apis/none/v1/x", timeout=1.0))
            return await plane.server.handle(request)

    transport = LocalTransport(WithoutClaims())
    connection = Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport, clock=plane.clock)
    options = TrialOptions(device_class="c", image="i", timeout=1.0)
    with pytest.raises(NotFound):
        await run_reported_trial(connection, options, facts={}, report=tmp_path / "r.yaml")
    trial = yaml.safe_load((tmp_path / "r.yaml").read_text())["trial"]
    assert trial == {"passed": False, "seconds": {}, "refused": 404}
    namespaces = await plane.user.list("namespaces")
    assert all("deletionTimestamp" in each["metadata"] for each in namespaces if "verify" in each["metadata"]["name"])
