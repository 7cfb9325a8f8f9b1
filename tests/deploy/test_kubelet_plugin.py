"""What can be said of the plugin's installation without a cluster; the rest is tests/scenarios/test_deploy.py."""

from pathlib import Path

import pytest
import yaml

from dra.cli.main import main
from tests.deploy import judging
from tests.violations import for_each_case

FOLDER = Path(__file__).parents[2] / "deploy" / "kubelet-plugin"
ACCOUNT = "system:serviceaccount:dra-reserve-nodes:dra-reserve-kubelet-plugin"
NODE_NAME = "authentication.kubernetes.io/node-name"

NODE_AUTHORIZER = {
    ("resource.k8s.io", "resourceclaims"): {"get"},
    ("resource.k8s.io", "resourceslices"): {"get", "list", "watch", "create", "update", "patch", "delete"},
    ("", "nodes"): {"get", "list", "watch", "create", "update", "patch"},
    ("events.k8s.io", "events"): {"create", "update", "patch"},
}
"""What a kubelet may do with its own."""


def documents(file):
    return list(yaml.safe_load_all((FOLDER / file).read_text()))


@pytest.fixture
def pod():
    (daemonset,) = documents("daemonset.yaml")
    return daemonset["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    (found,) = pod["containers"]
    return found


def test_no_right_goes_beyond_a_kubelets():
    (role,) = (obj for obj in documents("rights.yaml") if obj["kind"] == "ClusterRole")
    granted = {
        (group, kind): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
    }
    assert granted.keys() == NODE_AUTHORIZER.keys()
    assert all(verbs <= NODE_AUTHORIZER[what] for what, verbs in granted.items())


def test_every_file_is_installed():
    (kustomization,) = documents("kustomization.yaml")
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    assert documents("namespace.yaml")[0]["metadata"]["name"] == kustomization["namespace"]


def test_the_arguments_are_options_of_the_command(container):
    name, *arguments = container["args"]
    known = {option for parameter in main.commands[name].params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in arguments} <= known


def test_the_container_has_no_privilege_but_its_user(pod, container):
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert "privileged" not in context


def test_each_folder_of_the_host_is_said_to_be_needed(pod, container):
    text = (FOLDER / "daemonset.yaml").read_text().partition("apiVersion")[0]
    for volume in pod["volumes"]:
        if "hostPath" in volume:
            path = Path(volume["hostPath"]["path"])
            assert path.name in text or str(path) in text
            assert path not in Path("/var/lib/kubelet/pods").parents  # volumes and secrets of all pods
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    for name in ("plugins", "registry", "cdi"):  # told to others, so they must be the host's
        assert mounted[name] == paths[name]


def test_in_a_rolling_update_both_instances_have_names_of_their_own(container):
    (daemonset,) = documents("daemonset.yaml")
    assert daemonset["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert fields == {"NODE_NAME": "spec.nodeName", "POD_UID": "metadata.uid"}


def test_ports_are_those_of_the_arguments(container):
    ports = {each["name"]: str(each["containerPort"]) for each in container["ports"]}
    told = dict(argument.removeprefix("--").split("=") for argument in container["args"][1:])
    assert {name: told[name].rpartition(":")[2] for name in ports} == ports


@pytest.mark.parametrize("file", ["own-slices.yaml", "own-claims.yaml", "own-events.yaml"])
def test_the_policies_are_about_the_account_that_the_pods_have(pod, file):
    policy, binding = documents(file)
    (account,) = documents("service-account.yaml")
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    (condition,) = policy["spec"]["matchConditions"]
    assert f"'{ACCOUNT}'" in condition["expression"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert policy["spec"]["failurePolicy"] == "Fail"


def judge(request, *, obj=None, old=None, file="own-slices.yaml", name=""):
    """Return whether the policy lets a request pass, and what it says; without a name, the first policy of the file."""
    return judging.judge(judging.policy(f"kubelet-plugin/{file}", name), request, obj=obj, old=old)


def asked(operation, *, node="n1", user=ACCOUNT):
    extra = {} if node is None else {"extra": {NODE_NAME: [node]}}
    return {"operation": operation, "userInfo": {"username": user, **extra}}


def of_node(name, *, pool=None, driver="cpu.reserve.dra"):
    where = {"nodeName": name} if name else {"allNodes": True}
    return {"spec": {**where, "driver": driver, "pool": {"name": pool or name, "generation": 99}}}


@for_each_case(
    [
        pytest.param(asked("CREATE"), of_node("n1"), None, True, "", id="own"),
        pytest.param(asked("UPDATE"), of_node("n1"), of_node("n1"), True, "", id="own-changed"),
        pytest.param(asked("DELETE"), None, of_node("n1"), True, "", id="own-removed"),
        pytest.param(asked("CREATE"), of_node("n2"), None, False, "n1 may not write slices of node n2", id="other"),
        pytest.param(asked("DELETE"), None, of_node("n2"), False, "slices of node n2", id="other-removed"),
        pytest.param(asked("CREATE"), of_node(""), None, False, "slices of no node", id="of-all-nodes"),
        pytest.param(asked("CREATE"), of_node("n1", pool="n2"), None, False, "of pool n2", id="in-the-pool-of-another"),
        pytest.param(asked("DELETE"), None, of_node("n1", pool="n2"), False, "of pool n2", id="removed-from-there"),
        pytest.param(asked("CREATE"), of_node("n1", driver="net"), None, False, "of driver net", id="another-driver"),
        pytest.param(asked("CREATE"), of_node("n1", driver="gpu.reserve.dra"), None, True, "", id="of-the-gpu-driver"),
        pytest.param(asked("CREATE", node=None), of_node("n1"), None, False, "names no node", id="token-of-no-node"),
        pytest.param(asked("CREATE", user="admin", node=None), of_node("n1"), None, True, "", id="somebody-else"),
    ]
)
def test_slices_of_the_own_node_may_be_written_and_no_others(request_, obj, old, passes, text):
    passed, said = judge(request_, obj=obj, old=old)
    assert passed is passes
    assert text in said


def allocated(node="n1", *, listed=("p",), **statuses):
    """A claim with devices on a node and statuses of them, by driver: cpu is cpu.reserve.dra's."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    devices = [
        {"driver": f"{name}.reserve.dra", "pool": node, "device": "0", "data": data} for name, data in statuses.items()
    ]
    allocation = {"devices": {"results": []}, **({"nodeSelector": terms} if node else {})}
    return {"status": {"allocation": allocation, "reservedFor": [{"uid": uid} for uid in listed], "devices": devices}}


def writes(operation="UPDATE", *, part="status", **more):
    found = {**asked(operation, **more), "namespace": "ml", "name": "train"}
    return {**found, "subResource": part} if part else found


NOT_THERE = "its devices are not on that node"
NOTHING_ELSE = "except for the status of devices"


@for_each_case(
    [
        pytest.param(writes(), allocated(cpu="a"), allocated(), "", id="own-devices"),
        pytest.param(writes(), allocated(cpu="b"), allocated(cpu="a"), "", id="own-devices-changed"),
        pytest.param(writes(), allocated(), allocated(cpu="a"), "", id="own-devices-removed"),
        pytest.param(writes(), allocated("n2", cpu="a"), allocated("n2"), NOT_THERE, id="on-another-node"),
        pytest.param(writes(), allocated("", cpu="a"), allocated(""), NOT_THERE, id="on-every-node"),
        pytest.param(writes(), allocated(net="a"), allocated(), "of other drivers", id="another-driver"),
        pytest.param(writes(), allocated(), allocated(net="a"), "of other drivers", id="of-another-driver-removed"),
        pytest.param(writes(), allocated(listed=()), allocated(), NOTHING_ELSE, id="the-list"),
        pytest.param(writes(), {"status": {}}, allocated(), NOTHING_ELSE, id="the-allocation"),
        pytest.param(writes(part=""), allocated(), allocated(), NOTHING_ELSE, id="the-claim"),
        pytest.param(writes("DELETE", part=""), {}, allocated(), NOTHING_ELSE, id="deletes"),
        pytest.param(writes(node=None), allocated(cpu="a"), allocated(), "names no node", id="token-of-no-node"),
        pytest.param(writes(user="admin", part=""), allocated(), allocated(), None, id="somebody-else"),
    ]
)
def test_of_claims_the_status_of_devices_on_the_own_node_may_be_written(request_, obj, old, text):
    passed, said = judge(request_, obj=obj, old=old, file="own-claims.yaml")
    assert passed is not bool(text)
    assert (text or "") in said


def topology(node, *, by="", annotations=None, **fields):
    labels = {"labels": {"app.kubernetes.io/managed-by": by}} if by else {}
    if annotations:
        labels |= {"annotations": annotations}
    return {"metadata": {"name": node, **labels}, "topologyPolicies": ["None"], "zones": [], **fields}


OURS = "dra-reserve"
POOLS = {"node.koordinator.sh/cpu-shared-pools": "[]"}
KEPT = {"node.koordinator.sh/reservation": "{}"}


@for_each_case(
    [
        pytest.param(asked("CREATE"), topology("n1"), None, "", id="own"),
        pytest.param(asked("UPDATE"), topology("n1"), topology("n1"), "", id="own-changed"),
        pytest.param(asked("CREATE"), topology("n2"), None, "n1 may not write the topology of node n2", id="other"),
        pytest.param(asked("UPDATE"), topology("n2"), topology("n2"), "of node n2", id="other-changed"),
        pytest.param(asked("UPDATE"), topology("n1", zones=[{}]), topology("n1"), "stays as it is", id="zones"),
        pytest.param(
            asked("UPDATE"), topology("n1", by=OURS, zones=[{}]), topology("n1", by=OURS), "", id="zones-of-its-own"
        ),
        pytest.param(
            asked("UPDATE"), topology("n1", by=OURS), topology("n1", by="koordlet"), "stays as it is", id="taken-over"
        ),
        pytest.param(
            asked("CREATE"), topology("n1", by=OURS, annotations=POOLS | KEPT), None, "", id="annotations-of-its-own"
        ),
        pytest.param(
            asked("UPDATE"), topology("n1", by=OURS, annotations=POOLS), topology("n1", by=OURS), "", id="pools"
        ),
        pytest.param(
            asked("UPDATE"), topology("n1", by=OURS), topology("n1", by=OURS, annotations=POOLS), "", id="pools-gone"
        ),
        pytest.param(
            asked("UPDATE"), topology("n1", by="x", annotations=KEPT), topology("n1", by="x"), "", id="kept-for-others"
        ),
        pytest.param(
            asked("UPDATE"),
            topology("n1", by="x", annotations=POOLS),
            topology("n1", by="x"),
            "these annotations of a topology: node.koordinator.sh/cpu-shared-pools",
            id="pools-of-koordinators-agent",
        ),
        pytest.param(
            asked("UPDATE"),
            topology("n1", by=OURS),
            topology("n1", by=OURS, annotations={"a": "b"}),
            "these annotations of a topology: a",
            id="another-annotation",
        ),
        pytest.param(asked("CREATE", node=None), topology("n1"), None, "may not write", id="no-node-in-the-token"),
        pytest.param(asked("CREATE", user="koordlet"), topology("n2"), None, "", id="somebody-else"),
    ],
)
def test_a_plugin_writes_the_topology_of_its_own_node_only(request_, obj, old, text):
    passes, told = judge(request_, obj=obj, old=old, file="../node-topology/own-topologies.yaml")
    assert passes is (text == "")
    assert text in told


def device(node="n1", *, by=OURS, owner="n1", **more):
    owners = [{"apiVersion": "v1", "kind": "Node", "name": owner}] if owner else []
    return {
        "metadata": {"name": node, "labels": {"app.kubernetes.io/managed-by": by}, "ownerReferences": owners},
        **more,
    }


@for_each_case(
    [
        pytest.param(asked("CREATE"), device(), None, "", id="own"),
        pytest.param(asked("UPDATE"), device(spec={}), device(), "", id="own-changed"),
        pytest.param(asked("CREATE"), device("n2", owner=""), None, "may not write the Device of node n2", id="other"),
        pytest.param(asked("CREATE"), device(owner="n2"), None, "its own Node the owner", id="another-owner"),
        pytest.param(asked("UPDATE"), device(), device(by="koordlet"), "another component", id="of-another-component"),
        pytest.param(asked("DELETE"), None, device("n2"), "may not write the Device of node n2", id="other-deleted"),
        pytest.param(asked("CREATE", node=None), device(), None, "may not write", id="no-node-in-the-token"),
        pytest.param(asked("CREATE", user="koordlet"), device("n2"), None, "", id="somebody-else"),
    ]
)
def test_a_plugin_writes_the_device_of_its_own_node_only(request_, obj, old, text):
    passes, told = judge(request_, obj=obj, old=old, file="../koordinator-devices/own-devices.yaml")
    assert passes is (text == "")
    assert text in told


def node_metric(node="n1", **more):
    return {"metadata": {"name": node}, **more}


def reported(**more):
    return asked("UPDATE", **more) | {"subResource": "status"}


@for_each_case(
    [
        pytest.param(reported(), node_metric(status={}), node_metric(), "", id="own-status"),
        pytest.param(reported(), node_metric("n2"), node_metric("n2"), "the NodeMetric of node n2", id="other-status"),
        pytest.param(asked("UPDATE"), node_metric(), node_metric(), "writes only the status", id="own-spec"),
        pytest.param(asked("CREATE"), node_metric(), None, "writes only the status", id="own-created"),
        pytest.param(asked("DELETE"), None, node_metric(), "writes only the status", id="own-deleted"),
        pytest.param(asked("DELETE"), None, node_metric("n2"), "the NodeMetric of node n2", id="other-deleted"),
        pytest.param(reported(node=None), node_metric(), node_metric(), "may not write", id="no-node-in-the-token"),
        pytest.param(reported(user="koordlet"), node_metric("n2"), node_metric("n2"), "", id="somebody-else"),
    ]
)
def test_a_plugin_writes_the_status_of_the_nodemetric_of_its_own_node_only(request_, obj, old, text):
    passes, told = judge(request_, obj=obj, old=old, file="../colocation/own-node-metrics.yaml")
    assert passes is (text == "")
    assert text in told


def labelled(labels, **more):
    return {"metadata": {"name": "n1", "labels": labels, **more.pop("metadata", {})}, "spec": {}, **more}


MODEL = "node.koordinator.sh/gpu-model"


@for_each_case(
    [
        pytest.param({}, {"a": "b", MODEL: "x"}, {"a": "b"}, "", id="set"),
        pytest.param({}, {"a": "b"}, {"a": "b", MODEL: "x"}, "", id="removed"),
        pytest.param({}, {"a": "c"}, {"a": "b"}, "and nothing else", id="another-label"),
        pytest.param({}, {"a": "b"}, {}, "and nothing else", id="another-label-set"),
        pytest.param({}, {}, {"a": "b"}, "and nothing else", id="another-label-removed"),
        pytest.param({"name": "n2"}, {MODEL: "x"}, {}, "may write no Node but", id="another-node"),
        pytest.param({"subResource": "status"}, {MODEL: "x"}, {}, "may write no Node but", id="status"),
        pytest.param({"operation": "DELETE"}, {}, {}, "may write no Node but", id="deletes"),
    ]
)
def test_of_its_node_a_plugin_writes_three_labels_only(changes, obj, old, text):
    request_ = {**asked("UPDATE"), "name": "n1", **changes}
    file = "../koordinator-devices/own-devices.yaml"
    passes, told = judge(request_, obj=labelled(obj), old=labelled(old), file=file, name="own-node-labels.reserve.dra")
    assert passes is (text == "")
    assert text in told


@pytest.mark.parametrize(
    "changed",
    [{"spec": {"unschedulable": True}}, {"metadata": {"annotations": {"a": "b"}}}, {"metadata": {"finalizers": ["a"]}}],
    ids=["spec", "annotations", "finalizers"],
)
def test_of_its_node_a_plugin_writes_nothing_but_labels(changed):
    request_ = {**asked("UPDATE"), "name": "n1"}
    file = "../koordinator-devices/own-devices.yaml"
    passes, _ = judge(
        request_, obj=labelled({}, **changed), old=labelled({}), file=file, name="own-node-labels.reserve.dra"
    )
    assert not passes
