"""Pods in Koordinator's form: simulated with the claims that their namespace gives them, on cards of 16Gi."""

import msgspec
import pytest

from dra.api.parameters.cpu_policies import CpuBindPolicy
from tests.dra.cli.kubectl.simulate.manifests import manifest, placed
from tests.dra.engine.diagnosis.cluster_states import node, snapshot
from tests.dra.engine.diagnosis.koordinator_pods import CPU_DRIVER, GPU_DRIVER, offers
from tests.dra.engine.translation import examples
from tests.dra.engine.translation.examples import RESOURCE_SPEC, gpus, lsr

HALF = "koord-gpu-c50-r50-s1"
NAMESPACE = manifest("Namespace", "ml", labels={"reserve.dra/koordinator": "enabled"})


def cluster(*, enabled=True, slices=None):
    found = snapshot(nodes=[node("n1")], slices=offers() if slices is None else slices)
    classes = [
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]}}
        for name in (CPU_DRIVER, GPU_DRIVER)
    ]
    classes = msgspec.convert(classes, list[type(found.classes[0])])
    return msgspec.structs.replace(found, classes=tuple(classes), enabled_namespaces={"ml": enabled})


def asking(name, pod):
    metadata = {**pod["metadata"], "name": name}
    return manifest("Pod", **metadata, spec=pod["spec"])


def halves(count, **more):
    return [asking(f"p{number}", examples.pod(gpus(gpu="50"), **more)) for number in range(count)]


def test_four_halves_fit_on_two_cards(simulate):
    found = simulate(*halves(5), cluster=cluster())
    assert placed(found) == {"p0", "p1", "p2", "p3"}
    assert {each["translated"]["koord-gpu-0"] for each in found.values()} == {HALF}
    cards = [card for each in found.values() for card in each["devices"]]
    assert sorted(cards) == [f"{GPU_DRIVER}/n1/gpu-{number}" for number in (0, 0, 1, 1)]


def test_bound_cpus_are_counted_by_the_nodes_device(simulate):
    slices = offers()
    attributes = {"bindPolicy": {"string": "None"}, "threadsPerCore": {"int": 2}, "freeCores": {"int": 7}}
    slices[1]["spec"]["devices"][0] |= {"attributes": attributes, "capacity": {"dra.cpu/cpu": {"value": "5"}}}
    template = lsr("2", "1", labels={"koordinator.sh/priority-class": "koord-prod"})
    deployment = manifest("Deployment", "web", {"replicas": 2, "template": template}, version="apps/v1")
    found = simulate(deployment, cluster=cluster(slices=slices))
    assert placed(found) == {"web-0"}
    assert found["web-0"]["translated"] == {"koord-cpus": "koord-cpu-3-default-lsr"}


@pytest.mark.parametrize(
    ("manifests", "enabled", "note"),
    [
        pytest.param([], True, "translated: pod ml/p0: requests in Koordinator's form became claims:", id="enabled"),
        pytest.param([NAMESPACE], False, "translated: pod ml/p0: ", id="enabled-by-the-manifests"),
        pytest.param([], False, "not translated: pod ml/p0: namespace ml is not labelled", id="not-enabled"),
        pytest.param(
            [manifest("Namespace", "ml")], False, "not translated: pod ml/p0: ", id="namespace-without-the-label"
        ),
        pytest.param([manifest("Namespace", "ml")], True, "translated: pod ml/p0: ", id="the-label-stays"),
    ],
)
def test_the_label_of_the_namespace_decides(run, manifests, enabled, note):
    done = run(*manifests, *halves(1), cluster=cluster(enabled=enabled))
    assert done.exit_code == (not note.startswith("translated"))
    assert any(line.startswith(note) for line in done.stderr.splitlines()), done.stderr
    assert "not simulated" not in done.stderr


def test_pods_with_the_same_claims_are_told_of_together(run):
    done = run(*halves(3), cluster=cluster())
    (note,) = (line for line in done.stderr.splitlines() if "translated" in line)
    assert note.startswith("translated: 3 pods such as ml/p0: ")
    assert note.endswith(f"koord-gpu-0 from template {HALF}")


def test_nothing_is_told_of_other_pods(run):
    pod = asking("p", examples.pod(examples.container(cpu="1")))
    done = run(pod, cluster=cluster())
    assert done.exit_code == 0
    assert "translated" not in done.stderr


def test_a_pod_that_would_be_refused_is_told_where(run, simulate):
    pods = [*halves(1), asking("bad", examples.pod(gpus(gpu="150")))]
    found = simulate(*pods, cluster=cluster())
    assert placed(found) == {"p0"}
    assert found["bad"]["why"].startswith("refused: spec.containers[0].resources.limits[koordinator.sh/gpu]: ")
    done = run(*pods, cluster=cluster())
    assert "1 of 2 pods would be scheduled, 0 would stay Pending, 1 would be refused" in done.stderr
    assert "would stay Pending" not in done.stdout


def test_a_priority_class_counts_as_the_pods_priority(simulate):
    pod = lsr("2")
    del pod["spec"]["priority"]
    pod["spec"]["priorityClassName"] = "low"
    low = {"kind": "PriorityClass", "metadata": {"name": "low"}, "value": 5500}
    found = simulate(low, asking("p", pod), cluster=cluster())
    assert "koord-batch" in found["p"]["why"]


def test_a_ratio_of_cards_that_nobody_publishes_waits_for_its_template(simulate):
    found = simulate(*halves(1), cluster=cluster(slices=offers(cards=0)))
    assert not placed(found)
    assert found["p0"]["translated"] == {"koord-gpu-0": HALF}


def test_a_template_that_a_user_wrote_is_not_replaced(simulate):
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU_DRIVER, "count": 3}}
    own = manifest("ResourceClaimTemplate", HALF, {"spec": {"devices": {"requests": [request]}}})
    assert not placed(simulate(own, *halves(1), cluster=cluster()))


def test_a_reservation_holds_the_claim_for_its_owner(simulate):
    template = examples.pod(gpus(gpu="100"), labels={"app": "a"})
    owners = [{"labelSelector": {"matchLabels": {"app": "a"}}}]
    template["metadata"]["namespace"] = "ml"
    rsv = manifest("Reservation", "r", {"owners": owners, "ttl": "1h", "template": template})
    rsv["apiVersion"] = "scheduling.koordinator.sh/v1alpha1"
    slices = offers(cards=1)
    owner = asking("owner", examples.pod(gpus(gpu="100"), labels={"app": "a"}))
    other = asking("other", examples.pod(gpus(gpu="100")))
    found = simulate(rsv, other, owner, cluster=cluster(slices=slices))
    assert placed(found) == {"r", "owner"}
    assert found["owner"]["devices"] == [f"{GPU_DRIVER}/n1/gpu-0"] == found["r"]["devices"]


@pytest.mark.parametrize(
    ("configured", "options", "placed_pods", "assumed"),
    [
        pytest.param(None, [], {"p"}, True, id="unknown"),
        pytest.param("FullPCPUs", [], {"p"}, False, id="whole-cores-are-configured"),
        pytest.param("SpreadByPCPUs", [], set(), False, id="spread-threads-are-configured"),
        pytest.param(None, ["--default-cpu-bind-policy=SpreadByPCPUs"], set(), False, id="spread-threads-are-named"),
        pytest.param(
            "SpreadByPCPUs", ["--default-cpu-bind-policy=FullPCPUs"], {"p"}, False, id="the-named-one-comes-first"
        ),
    ],
)
def test_pods_without_a_bind_policy_have_the_clusters_default(simulate, run, configured, options, placed_pods, assumed):
    """The node has three free cores of two threads: four CPUs fit as whole cores, and not as threads of four cores."""
    slices = offers()
    attributes = {"bindPolicy": {"string": "None"}, "threadsPerCore": {"int": 2}, "freeCores": {"int": 3}}
    capacity = {"dra.cpu/cpu": {"value": "6"}, "wholeCoreCPUs": {"value": "6"}, "distinctCoreCPUs": {"value": "3"}}
    slices[1]["spec"]["devices"][0] |= {"attributes": attributes, "capacity": capacity}
    found = msgspec.structs.replace(
        cluster(slices=slices), default_cpu_bind_policy=None if configured is None else CpuBindPolicy(configured)
    )
    spec = {RESOURCE_SPEC: '{"requiredCPUBindPolicy":"Default"}'}
    asked = asking("p", lsr("4", labels={"koordinator.sh/priority-class": "koord-prod"}, annotations=spec))
    assert placed(simulate(asked, cluster=found, options=options)) == placed_pods
    assert ("assumed: pod ml/p: CPUs are bound by FullPCPUs" in run(asked, cluster=found, options=options).stderr) == (
        assumed
    )
