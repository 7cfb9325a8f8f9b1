"""The limits of batch pods and their containers, from what the pods request."""

import pytest

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.suppression.batch_pod_limits import CgroupLimits, batch_pod_limits
from dra.engine.suppression.quota import limit_quota
from dra.model.meta import ObjectMeta, Uid
from dra.model.scheduling import SIDECAR, Container, ResourceRequirements, SchedulerPod, SchedulerPodSpec
from tests.violations import for_each_case

GI = 1024**3


def container(name="main", *, cpu=None, memory=None, cpu_limit=None, memory_limit=None, restart=""):
    requests = {BATCH_CPU: cpu, BATCH_MEMORY: memory}
    limits = {BATCH_CPU: cpu_limit, BATCH_MEMORY: memory_limit}
    return Container(
        name=name,
        restart_policy=restart,
        resources=ResourceRequirements(
            requests={name: amount for name, amount in requests.items() if amount is not None},
            limits={name: amount for name, amount in limits.items() if amount is not None},
        ),
    )


def pod(*containers, initial=(), qos="BE", overhead=None):
    return SchedulerPod(
        metadata=ObjectMeta(name="batch", uid=Uid("1"), labels={"koordinator.sh/qosClass": qos} if qos else {}),
        spec=SchedulerPodSpec(containers=list(containers), init_containers=list(initial), overhead=overhead),
    )


@pytest.mark.parametrize(
    ("milli", "shares", "quota"),
    [
        pytest.param("0", 2, None, id="nothing-is-no-quota"),
        pytest.param("5", 5, 1000, id="the-kernel-takes-no-quota-below-1000"),
        pytest.param("500", 512, 50000, id="half-a-cpu"),
        pytest.param("1k", 1024, 100000, id="one-cpu"),
        pytest.param("2500", 2560, 250000, id="two-and-a-half-cpus"),
        pytest.param("256000", 262144, 25600000, id="shares-end-at-262144"),
    ],
)
def test_shares_and_quota_of_a_pod_with_equal_request_and_limit(milli, shares, quota):
    limits = batch_pod_limits(pod(container(cpu=milli, cpu_limit=milli)))
    for found in (limits.pod, limits.containers["main"]):
        assert found.shares == shares
        assert limit_quota(found.cpu_milli) == quota


def test_a_request_of_570_with_a_limit_of_2000_has_583_shares_and_a_quota_of_200000():
    limits = batch_pod_limits(pod(container(cpu="570", cpu_limit="2k", memory="1Gi", memory_limit="2Gi")))
    assert limits.pod == CgroupLimits(shares=583, cpu_milli=2000, memory_bytes=2 * GI)
    assert limits.containers == {"main": limits.pod}
    assert limit_quota(limits.pod.cpu_milli) == 200000


@for_each_case(
    [
        pytest.param(
            pod(container("a", cpu="500", cpu_limit="1k"), container("b", cpu="500")),
            (1000, None),
            id="one-container-without-a-limit-makes-the-pod-unlimited-not-minimal",
        ),
        pytest.param(
            pod(container("a", cpu_limit="1k"), container("b", cpu="200", cpu_limit="300")),
            (1200, 1300),
            id="a-limit-without-a-request-is-a-request",
        ),
        pytest.param(
            pod(container(cpu="500", cpu_limit="500"), initial=[container("init", cpu="2k", cpu_limit="3k")]),
            (2000, 3000),
            id="the-largest-init-container-counts",
        ),
        pytest.param(
            pod(
                container(cpu="500", cpu_limit="500"),
                initial=[
                    container("sidecar", cpu="100", cpu_limit="200", restart=SIDECAR),
                    container("init", cpu="1k", cpu_limit="1k"),
                ],
            ),
            (1100, 1200),
            id="a-sidecar-runs-beside-the-init-containers-after-it",
        ),
        pytest.param(
            pod(
                container(cpu="500", cpu_limit="500"),
                initial=[container("sidecar", cpu="700", cpu_limit="900", restart=SIDECAR)],
            ),
            (1200, 1400),
            id="sidecars-are-added-to-containers",
        ),
        pytest.param(
            pod(container(cpu="500", cpu_limit="500"), initial=[container("init", cpu="10")]),
            (500, None),
            id="an-init-container-without-a-limit-makes-the-pod-unlimited",
        ),
        pytest.param(
            pod(container(cpu="500", cpu_limit="500"), overhead={"cpu": "250m", "memory": "120Mi"}),
            (750, 750),
            id="overhead-of-the-sandbox-is-added",
        ),
        pytest.param(
            pod(container(cpu="500", cpu_limit="500"), overhead={BATCH_CPU: "250", "cpu": "9"}),
            (750, 750),
            id="overhead-that-is-translated-is-added-once",
        ),
        pytest.param(pod(container(cpu="200m", cpu_limit="200m")), (1, 1), id="a-fraction-counts-as-one-milli"),
        pytest.param(pod(container(cpu="1", cpu_limit="9E")), (1, None), id="an-endless-limit-is-none"),
        pytest.param(pod(container(cpu="-5", cpu_limit="-5")), (0, None), id="negative-amounts-are-none"),
        pytest.param(pod(container(cpu="much", cpu_limit="more")), (0, None), id="what-cannot-be-read-is-absent"),
    ]
)
def test_cpus_of_a_pod_are_those_that_it_needs_at_one_moment(body, wanted):
    limits = batch_pod_limits(body)
    request, limit = wanted
    assert limits.pod.shares == max(2, request * 1024 // 1000)
    assert limits.pod.cpu_milli == limit


@pytest.mark.parametrize(
    ("body", "memory"),
    [
        pytest.param(
            pod(container("a", memory_limit="1Gi"), container("b", memory_limit="512Mi")), GI * 3 // 2, id="sum"
        ),
        pytest.param(pod(container("a", memory_limit="1Gi"), container("b", memory="1Gi")), None, id="one-without"),
        pytest.param(pod(container(memory_limit="1073741823")), 1073741823, id="not-yet-whole-pages"),
        pytest.param(pod(container(memory_limit="8E")), None, id="as-good-as-unlimited"),
    ],
)
def test_the_memory_limit_of_a_pod_is_the_sum_of_its_limits(body, memory):
    assert batch_pod_limits(body).pod.memory_bytes == memory


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(container(cpu="500"), qos="LS"), id="another-class"),
        pytest.param(pod(container(cpu="500"), qos=""), id="no-class"),
        pytest.param(pod(container()), id="no-batch-resources"),
        pytest.param(pod(), id="no-containers"),
    ],
)
def test_other_pods_have_no_batch_limits(body):
    assert batch_pod_limits(body) is None


def test_files_of_a_resource_that_a_pod_does_not_name_are_left_alone():
    limits = batch_pod_limits(pod(container(memory_limit="1Gi")))
    assert (limits.has_cpu, limits.has_memory) == (False, True)
    assert limits.pod.shares is None


def test_containers_with_fractions_are_named():
    body = pod(container("a", cpu="200m"), container("b", cpu="200"), container("c", cpu="2k", cpu_limit="2500.5"))
    assert batch_pod_limits(body).fractions == ("a", "c")
