"""Fields of pods that kube-scheduler heeds and the simulation does not are named beside the nodes that fit."""

import pytest

from dra.cli.kubectl.simulate.simulated_manifests import parse_manifests
from tests.dra.cli.kubectl.simulate.manifests import manifest, using

REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]}
WHY = ": not read by the simulation, so kube-scheduler may refuse the nodes that fit here"


def with_port(**port):
    return {"containers": [{"name": "main", "ports": [port]}]}


def texts(*documents):
    return parse_manifests(documents, namespace="ml").unsimulated


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"runtimeClassName": "kata"}, "runtimeClassName", id="runtime-class"),
        pytest.param({"affinity": {"podAntiAffinity": REQUIRED}}, "podAntiAffinity", id="anti-affinity"),
        pytest.param({"affinity": {"podAffinity": REQUIRED}}, "podAffinity", id="affinity"),
        pytest.param({"affinity": {"podAntiAffinity": PREFERRED}}, "", id="preferred-affinity"),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "topologySpreadConstraints",
            id="spread",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
            "",
            id="preferred-spread",
        ),
        pytest.param(with_port(containerPort=80), "", id="port"),
        pytest.param(with_port(containerPort=80, hostPort=80), "hostPort", id="host-port"),
        pytest.param(with_port(containerPort=80) | {"hostNetwork": True}, "hostPort", id="host-network"),
        pytest.param({"volumes": [{"name": "a", "emptyDir": {}}]}, "", id="empty-directory"),
        pytest.param(
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]}, "volumes", id="persistent-volume"
        ),
    ],
)
def test_only_fields_that_may_keep_a_pod_from_a_node_are_named(spec, fields):
    assert texts(manifest("Pod", "p", using() | spec)) == ([f"pod p: {fields}{WHY}"] if fields else [])


def test_a_workload_is_named_once(run):
    spec = using(runtimeClassName="kata", affinity={"podAntiAffinity": REQUIRED})
    done = run(manifest("Deployment", "web", {"replicas": 3, "template": {"spec": spec}}, version="apps/v1"))
    assert done.stderr.count(f"note: deployment web: runtimeClassName, podAntiAffinity{WHY}\n") == 1, done.stderr
