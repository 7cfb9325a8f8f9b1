"""Pods with fields that kube-scheduler heeds and the simulation does not are never said to be scheduled."""

import json

import pytest

from dra.cli.kubectl.simulate.unsimulated_fields import unsimulated_fields
from tests.dra.cli.kubectl.simulate.manifests import asking, manifest, using
from tests.dra.cli.kubectl.simulate.test_reservations import having, mine, reservation
from tests.dra.engine.diagnosis.cluster_states import node, pod, snapshot
from tests.violations import for_each_case

REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]}
APART = {"affinity": {"podAntiAffinity": REQUIRED}}


def volume(**source):
    return {"volumes": [{"name": "a"} | source]}


@for_each_case(
    [
        pytest.param({}, (), id="nothing"),
        pytest.param(APART, ("podAntiAffinity",), id="anti-affinity"),
        pytest.param({"affinity": {"podAffinity": REQUIRED}}, ("podAffinity",), id="affinity"),
        pytest.param({"affinity": {"podAntiAffinity": PREFERRED}}, (), id="preferred-affinity"),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            ("topologySpreadConstraints",),
            id="spread",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, (), id="preferred-spread"
        ),
        pytest.param(volume(emptyDir={}), (), id="empty-directory"),
        pytest.param(volume(persistentVolumeClaim={"claimName": "a"}), ("volumes",), id="persistent-volume"),
        pytest.param(volume(ephemeral={"volumeClaimTemplate": {}}), ("volumes",), id="ephemeral-volume"),
        pytest.param(volume(csi={"driver": "d"}), ("volumes",), id="limited-by-a-csi-driver"),
        pytest.param(volume(rbd={"image": "i"}), ("volumes",), id="exclusive-volume"),
        pytest.param({"volumes": None}, (), id="no-volumes"),
    ]
)
def test_only_fields_that_may_keep_a_pod_from_a_node_are_named(spec, fields):
    assert unsimulated_fields(using() | spec) == fields


def test_such_a_pod_is_undecided_where_it_fits(simulate):
    outcome = simulate(asking("c"), manifest("Pod", "p", using("c", **APART)))["p"]
    assert (outcome["verdict"], outcome["placed"], outcome["node"], outcome["devices"]) == (
        "Undecided",
        False,
        "",
        [],
    )
    assert outcome["possibleNode"] in {"n1", "n2", "n3"}
    assert outcome["unsimulated"] == ["podAntiAffinity"]
    assert outcome["why"] == (
        f"would fit on node {outcome['possibleNode']} as far as devices, CPU and memory go; podAntiAffinity is not "
        "simulated, so kube-scheduler may refuse the node"
    )


def test_such_a_pod_is_pending_where_it_does_not_fit(run):
    done = run(manifest("Pod", "p", using(cpu=99, **APART)), options=("--output=json",))
    (outcome,) = json.loads(done.stdout)["items"]
    assert (done.exit_code, outcome["verdict"], outcome["unsimulated"]) == (1, "Pending", ["podAntiAffinity"])
    assert "possibleNode" not in outcome


def test_the_table_shows_no_node_and_equal_pods_once(run):
    spec = using(**volume(csi={"driver": "d"}), **APART)
    done = run(
        manifest("Deployment", "web", {"replicas": 5, "template": {"spec": spec}}, version="apps/v1"),
        cluster=snapshot(nodes=[node("n1")]),
    )
    assert done.exit_code == 3
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("ml "))
    assert row.split()[1:6] == ["web-0", "and", "4", "more", "<unknown>"]
    assert row.endswith(
        "would fit on node n1 as far as devices, CPU and memory go; podAntiAffinity, volumes are not "
        "simulated, so kube-scheduler may refuse the node"
    )
    counts = "0 of 5 pods would be scheduled, 0 would stay Pending, 5 may be scheduled"
    assert f"{counts}: not all of their fields are simulated" in done.stderr


@pytest.mark.parametrize(
    ("cpus", "code"),
    [
        pytest.param((1,), 0, id="scheduled"),
        pytest.param((1, 99), 1, id="one-waits"),
    ],
)
@pytest.mark.parametrize("undecided", [False, True], ids=["", "beside-an-undecided-one"])
def test_the_exit_code_says_the_worst(run, cpus, code, undecided):
    pods = [manifest("Pod", f"p{number}", using(cpu=cpu)) for number, cpu in enumerate(cpus)]
    more = [manifest("Pod", "u", using(**APART))] if undecided else []
    assert run(*pods, *more).exit_code == (code or (3 if undecided else 0))


def test_the_owner_of_an_undecided_reservation_is_undecided(simulate):
    outcomes = simulate(
        mine("a"), reservation("r", topologySpreadConstraints=[{"topologyKey": "zone"}]), cluster=having()
    )
    assert {name: outcome["verdict"] for name, outcome in outcomes.items()} == {"r": "Undecided", "a": "Undecided"}
    assert outcomes["a"]["unsimulated"] == ["topologySpreadConstraints of reservation r"]


def test_an_undecided_pod_may_preempt(run):
    running = pod("low", on="n1", phase="Running", priority=0, cpu=8)
    done = run(
        manifest("Pod", "p", using(cpu=8, priority=10, **APART)), cluster=snapshot(nodes=[node("n1")], pods=[running])
    )
    assert "pod ml/low (priority 0) may be preempted: pod ml/p (priority 10) fits on no other node" in done.stdout


def with_port(number, **spec):
    return using(**spec) | {"containers": [{"name": "main", "ports": [{"containerPort": number, "hostPort": number}]}]}


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        pytest.param(with_port(80), {"p0", "p1", "p2"}, id="of-the-host"),
        pytest.param(
            {"hostNetwork": True, "containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
            {"p0", "p1", "p2"},
            id="in-the-network-of-the-host",
        ),
        pytest.param(
            {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
            {"p0", "p1", "p2", "p3"},
            id="of-the-pod",
        ),
    ],
)
def test_a_host_port_is_given_once_on_each_node(simulate, wanted, placed):
    outcomes = simulate(*(manifest("Pod", f"p{number}", wanted) for number in range(4)))
    assert {name for name, outcome in outcomes.items() if outcome["placed"]} == placed
    waits = {outcome["why"] for outcome in outcomes.values() if not outcome["placed"]}
    assert waits <= {"0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports."}


def test_a_host_port_of_a_running_pod_is_taken(simulate):
    running = pod("there", on="n1", phase="Running")
    running["spec"]["containers"] = with_port(80)["containers"]
    outcomes = simulate(
        manifest("Pod", "p", with_port(80)), cluster=snapshot(nodes=[node("n1"), node("n2")], pods=[running])
    )
    assert outcomes["p"]["node"] == "n2"


def repelling(app, *, on=""):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod("keeper", on=on, phase="Running" if on else "Pending", affinity=affinity)


@pytest.mark.parametrize(
    ("app", "verdict"),
    [pytest.param("web", "Undecided", id="its-labels"), pytest.param("db", "Scheduled", id="others")],
)
@pytest.mark.parametrize("where", ["in-the-cluster", "in-the-manifests"])
def test_a_pod_that_another_one_keeps_away_is_undecided(simulate, app, verdict, where):
    web = manifest("Pod", "p", using(), labels={"app": "web"})
    if where == "in-the-cluster":
        outcomes = simulate(web, cluster=snapshot(pods=[repelling(app, on="n1")]))
    else:
        outcomes = simulate(manifest("Pod", "keeper", repelling(app)["spec"]), web)
    assert outcomes["p"]["verdict"] == verdict
    assert outcomes["p"]["unsimulated"] == (["podAntiAffinity of pod ml/keeper"] if verdict == "Undecided" else [])
