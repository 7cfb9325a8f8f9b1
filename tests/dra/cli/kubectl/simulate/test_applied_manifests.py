"""Manifests of objects that exist already are simulated as kubectl apply would change the objects, and are named."""

import msgspec
import pytest

from dra.cli.kubectl.simulate.applied_manifests import apply_manifests
from dra.cli.kubectl.simulate.simulated_manifests import parse_manifests
from dra.engine.diagnosis.snapshot import Snapshot
from tests.dra.cli.kubectl.simulate.manifests import asking, manifest, placed, template, using
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, node, offer, snapshot
from tests.violations import for_each_case

CHANGED = "exists; it is simulated with the fields of the manifest"
REFUSED = "exists with another spec, which the API server would refuse to change; it is simulated as it is"


def device_class(name, expression):
    return manifest("DeviceClass", name, {"selectors": [{"cel": {"expression": expression}}]})


def host(name, *, status=None, labels=None, **spec):
    made = manifest("Node", name, spec, labels=labels)
    return made | ({"status": status} if status else {})


def slice_manifest(name, devices):
    return manifest("ResourceSlice", f"{name}-gpus", offer(name, devices)["spec"])


def without(spec, name):
    return {key: value for key, value in spec.items() if key != name}


def sized(memory, cores="1"):
    """Return a claim that asks for capacity, and a slice that has it."""
    claim_manifest = asking("c")
    claim_manifest["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {
        "requests": {"memory": memory, "cores": cores}
    }
    published = offer("n1", 1)
    published["spec"]["devices"][0]["capacity"] = {"memory": {"value": memory}}
    return claim_manifest, manifest("ResourceSlice", "n1-gpus", published["spec"])


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        pytest.param(sized("1Gi"), False, id="as-it-is"),
        pytest.param(sized("1024Mi"), False, id="in-other-units"),
        pytest.param(sized("1Gi", "1000m"), False, id="in-thousandths"),
        pytest.param(sized("2Gi"), True, id="another-amount"),
        pytest.param(sized("much"), True, id="no-amount"),
    ],
)
def test_amounts_are_compared_by_what_they_are(written, changes):
    there, published = sized("1Gi")
    cluster = msgspec.convert(
        {"claims": [{"metadata": there["metadata"] | {"uid": "c"}, "spec": there["spec"]}]}
        | {"slices": [{"metadata": {"name": "n1-gpus", "uid": "s"}, "spec": published["spec"]}]},
        Snapshot,
    )
    texts = applied(*written, cluster=cluster)[3]
    assert bool(texts) is changes, texts


def test_labels_are_no_amounts():
    cluster = snapshot(nodes=[node("n1")])
    *_, texts = applied(
        host("n1", labels={"capacity": "1Gi"}),
        cluster=applied(host("n1", labels={"capacity": "1024Mi"}), cluster=cluster)[1],
    )
    assert texts


def applied(*documents, cluster=None):
    before = cluster or snapshot(
        claim("c"), templates=[template("t")], priorities=[{"metadata": {"name": "high"}, "value": 5}]
    )
    manifests = parse_manifests(documents, namespace="ml")
    after, texts = apply_manifests(before, manifests)
    return before, after, manifests, texts


@for_each_case(
    [
        pytest.param(device_class(DRIVER, "true"), "", id="an-equal-class"),
        pytest.param(device_class(DRIVER, "false"), f"deviceclass {DRIVER}: {CHANGED}", id="another-class"),
        pytest.param(slice_manifest("n1", 2), "", id="an-equal-slice"),
        pytest.param(slice_manifest("n1", 1), f"resourceslice n1-gpus: {CHANGED}", id="another-slice"),
        pytest.param(
            host("n1", taints=[{"key": "a", "effect": "NoSchedule"}]), f"node n1: {CHANGED}", id="a-tainted-node"
        ),
        pytest.param(host("n1", labels={"zone": "a"}), f"node n1: {CHANGED}", id="a-label-of-a-node"),
        pytest.param(host("n1"), "", id="a-node-of-which-nothing-is-said"),
        pytest.param(asking("c"), "", id="an-equal-claim-without-defaults"),
        pytest.param(asking("c", 2), f"resourceclaim ml/c: {REFUSED}", id="another-claim"),
        pytest.param(template("t", 2), f"resourceclaimtemplate ml/t: {REFUSED}", id="another-template"),
        pytest.param(
            {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7},
            f"priorityclass high: {REFUSED}",
            id="another-priority",
        ),
        pytest.param(
            {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5, "preemptionPolicy": "Never"},
            f"priorityclass high: {REFUSED}",
            id="another-preemption-policy",
        ),
        pytest.param(
            {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5, "globalDefault": True},
            f"priorityclass high: {CHANGED}",
            id="the-default-priority",
        ),
        pytest.param(
            manifest("ResourceSlice", "n1-gpus", offer("n1", 2)["spec"] | {"nodeName": "n2"}),
            f"resourceslice n1-gpus: {REFUSED}",
            id="a-slice-of-another-node",
        ),
        pytest.param(
            manifest("ResourceSlice", "n1-gpus", without(offer("n1", 2)["spec"], "nodeName") | {"allNodes": True}),
            "resourceslice n1-gpus: exists, and the API server would refuse the change (spec: Invalid value: "
            '"{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
            "`perDeviceNodeSelection` is required, but multiple fields are set); it is simulated as it is",
            id="a-slice-of-one-node-and-of-all",
        ),
    ]
)
def test_each_object_that_is_not_simulated_as_it_was_is_named(document, text):
    _, after, manifests, texts = applied(document)
    assert texts == ((text,) if text else ())
    assert not any((manifests.nodes, manifests.slices, manifests.classes, manifests.claims, manifests.templates))
    assert isinstance(after, Snapshot)


@pytest.mark.parametrize("document", [asking("c", 2), template("t", 2), device_class(DRIVER, "true"), host("n1")])
def test_what_apply_would_refuse_or_leave_changes_nothing(document):
    before, after, *_ = applied(document)
    assert after == before


def test_fields_that_a_manifest_of_a_node_does_not_have_stay():
    cluster = snapshot(nodes=[node("n1", cordoned=True)])
    labels = cluster.nodes[0].metadata.labels
    _, after, *_ = applied(host("n1", labels={"zone": "a"}), cluster=cluster)
    assert after.nodes[0].metadata.labels == {**(labels or {}), "zone": "a"}
    assert after.nodes[0].spec.unschedulable
    assert after.nodes[0].status == cluster.nodes[0].status


def test_a_field_may_be_set_to_its_default():
    _, after, *_ = applied(host("n1", unschedulable=False), cluster=snapshot(nodes=[node("n1", cordoned=True)]))
    assert not after.nodes[0].spec.unschedulable


def test_the_status_of_a_node_is_that_of_the_cluster():
    cluster = snapshot(nodes=[node("n1")])
    _, after, _, texts = applied(host("n1", status={"allocatable": {"cpu": "512"}}), cluster=cluster)
    assert after == cluster
    assert texts == ("node n1: exists; it is simulated with the status that it has, not with that of the manifest",)


def test_a_claim_gets_the_annotations_of_its_manifest_and_keeps_its_allocation():
    cluster = snapshot(claim("c", "n1/gpu-0"))
    reserved = asking("c")
    reserved["metadata"]["annotations"] = {"reserve.dra/reserved-for": "jobs.batch/train"}
    _, after, *_ = applied(reserved, cluster=cluster)
    assert after.claims[0].metadata.annotations == reserved["metadata"]["annotations"]
    assert after.claims[0].status == cluster.claims[0].status


def test_what_does_not_exist_yet_stays_in_the_manifests():
    before, after, manifests, texts = applied(asking("new"), host("n9"))
    assert (after, texts) == (before, ())
    assert ([claim.metadata.name for claim in manifests.claims], [node.metadata.name for node in manifests.nodes]) == (
        ["new"],
        ["n9"],
    )


def test_pods_are_placed_with_the_changed_class(simulate):
    asks = (asking("d"), manifest("Pod", "p", using("d")))
    assert placed(simulate(*asks)) == {"p"}
    assert placed(simulate(device_class(DRIVER, "false"), *asks)) == set()


def test_the_command_names_what_it_changes_on_stderr(run):
    done = run(device_class(DRIVER, "false"), cluster=snapshot())
    assert f"note: deviceclass {DRIVER}: {CHANGED}" in done.stderr


def test_an_existing_class_becomes_the_default_one():
    _, after, *_ = applied({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5, "globalDefault": True})
    (changed,) = after.priorities
    assert (changed.value, changed.global_default) == (5, True)
