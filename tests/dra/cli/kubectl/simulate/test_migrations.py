"""PodMigrationJobs in a play: where the room would be held, and who then runs in it."""

import json

import msgspec
import pytest

from dra.model.meta import ObjectMeta, UnstructuredObject
from tests.dra.cli.kubectl.simulate.manifests import manifest, placed, template, using
from tests.dra.engine.diagnosis.cluster_states import claim, node, offer, pod, snapshot

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web", "controller": True}


def running(name="web-1", cpu=5, *, on="n1", owner=OWNER, **spec):
    containers = [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]
    metadata = {"ownerReferences": [owner]} if owner else {}
    return pod(name, on=on, phase="Running", containers=containers, metadata=metadata, **spec)


def job(name="move", pod="web-1", **spec):
    reference = {"namespace": "ml", "name": pod}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": name},
        "spec": {"podRef": reference, **spec},
    }


def two_nodes(*pods, other="8"):
    return snapshot(nodes=[node("n1"), node("n2", cpu=other)], pods=list(pods))


def test_the_room_is_on_another_node_although_the_old_one_is_the_freest(simulate):
    items = simulate(job(), cluster=two_nodes(running(), running("web-2", 1, on="n2")))
    assert (items["move"]["from"], items["move"]["node"]) == ("n1", "n2")
    assert items["move"]["why"] == "moves from node n1"


TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    ]
}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


@pytest.mark.parametrize("reservation", ["made", "supplied"])
@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("podAntiAffinity", {"affinity": {"podAntiAffinity": TERMS}}),
        ("podAffinity", {"affinity": {"podAffinity": TERMS}}),
        ("topologySpreadConstraints", {"topologySpreadConstraints": [SPREAD]}),
        ("volumes", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}),
    ],
)
def test_a_pod_whose_fields_may_exclude_the_node_may_move(run, field, spec, reservation):
    cluster, given = two_nodes(running(**spec)), job()
    if reservation == "supplied":
        cluster = msgspec.structs.replace(cluster, reservations=(supplied("n2"),))
        given = job(reservationOptions={"reservationRef": {"name": "kept"}})
    done = run(given, cluster=cluster, options=("--output=json",))
    (item,) = json.loads(done.stdout)["items"]
    assert (done.exit_code, item["placed"]) == (3, False)
    assert item["why"] == (f"may move from node n1; {field} is not simulated, so kube-scheduler may refuse the node")
    assert "0 of 1 pods would be moved, 1 may be moved" in done.stderr


def test_of_pods_that_wait_already_none_is_promised_a_node_that_its_fields_may_exclude(run):
    waiting = [running("plain", 1, on=""), running("near", 1, on="", affinity={"podAffinity": TERMS})]
    done = run(manifest("Pod", "p", using(cpu=1)), cluster=two_nodes(*waiting))
    assert (
        "1 pods that are already Pending would be scheduled; 1 pods that are already Pending may be scheduled"
    ) in done.stderr
    assert done.exit_code == 0


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]},
    ],
    ids=["podAffinity", "topologySpreadConstraints"],
)
def test_a_pod_that_only_prefers_nodes_moves(simulate, spec):
    assert simulate(job(), cluster=two_nodes(running(**spec)))["move"]["why"] == "moves from node n1"


def test_without_room_elsewhere_the_pod_stays_with_the_schedulers_reason(simulate):
    items = simulate(job(), cluster=two_nodes(running(), other="2"))
    assert placed(items) == set()
    assert items["move"]["why"].startswith("stays: no other node has room: ")
    assert "cpu" in items["move"]["why"]


def test_pods_of_the_manifests_find_the_room_that_the_moved_pod_left(simulate):
    cluster = two_nodes(running(), other="5")
    eight = manifest("Pod", "big", using(cpu=8))
    assert placed(simulate(eight, cluster=cluster)) == set()
    assert placed(simulate(job(), eight, cluster=cluster)) == {"move", "big"}


def test_two_jobs_do_not_get_the_same_room(simulate):
    cluster = two_nodes(running(), running("web-2", 3))
    items = simulate(job(), job("second", "web-2"), cluster=cluster)
    assert placed(items) == {"move", "second"}
    cluster = two_nodes(running(), running("web-2", 3), other="6")
    assert len(placed(simulate(job(), job("second", "web-2"), cluster=cluster))) == 1


@pytest.mark.parametrize(
    ("given", "cluster", "why"),
    [
        pytest.param(job(pod="web-9"), two_nodes(), "refused: pod ml/web-9 does not exist", id="no-such-pod"),
        pytest.param(job(), two_nodes(running(owner=None)), "has no controller", id="bare"),
        pytest.param(job(), two_nodes(running(cpu=0)), "requests neither resources nor claims", id="requests-nothing"),
        pytest.param(job(), two_nodes(running(schedulerName="mine")), "scheduler mine places no", id="scheduler"),
    ],
)
def test_what_the_descheduler_would_refuse_is_refused(simulate, given, cluster, why):
    assert why in simulate(given, cluster=cluster)["move"]["why"]


def supplied(on):
    metadata = {"name": "kept", "uid": "uid-kept", "resourceVersion": "1"}
    status = {"phase": "Available", "nodeName": on, "allocatable": {"cpu": "5"}} if on else {}
    owners = [{"controller": {**OWNER, "namespace": "ml"}}]
    spec = {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "5"}}}]}}, "owners": owners}
    content = {"metadata": metadata, "spec": {**spec, "ttl": "0s"}, "status": status}
    return UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content)


@pytest.mark.parametrize(
    ("on", "node", "why"),
    [
        pytest.param("n2", "n2", "moves from node n1", id="on-another-node"),
        pytest.param("n1", "", "refused: reservation kept is on node n1, as the pod is", id="on-the-pods-node"),
        pytest.param("", "", "stays: reservation kept has no node yet", id="without-a-node"),
        pytest.param(None, "", "refused: reservation kept does not exist", id="absent"),
    ],
)
def test_a_supplied_reservation_decides_where_the_pod_goes(simulate, on, node, why):
    supplied_reservations = () if on is None else (supplied(on),)
    cluster = msgspec.structs.replace(two_nodes(running()), reservations=supplied_reservations)
    given = job(reservationOptions={"reservationRef": {"name": "kept"}})
    outcome = simulate(given, cluster=cluster)["move"]
    assert (outcome["node"], outcome["why"]) == (node, why)


@pytest.mark.parametrize(
    ("cpu", "owners", "why"),
    [
        pytest.param(6, None, 'refused: Reservation "kept": Insufficient cpu', id="too-small"),
        pytest.param(5, [{"object": {"name": "other"}}], "has no owner that matches the pod", id="of-others"),
        pytest.param(5, [{"labels": {}}], "refused: reservation kept: ", id="unreadable"),
    ],
)
def test_a_supplied_reservation_that_does_not_suit_the_pod_is_refused(simulate, cpu, owners, why):
    kept = supplied("n2")
    if owners is not None:
        kept.content["spec"]["owners"] = owners
    cluster = msgspec.structs.replace(two_nodes(running(cpu=cpu)), reservations=(kept,))
    given = job(reservationOptions={"reservationRef": {"name": "kept"}})
    assert why in simulate(given, cluster=cluster)["move"]["why"]


def test_evicting_directly_holds_nothing(simulate):
    items = simulate(job(mode="EvictDirectly"), cluster=two_nodes(running()))
    assert items["move"]["node"] == ""
    assert items["move"]["why"] == "evicted from node n1; no room is held for its replacement"


def test_an_invalid_job_is_an_error_that_names_the_field(simulate):
    done = simulate(job(podReff={}), cluster=two_nodes())
    assert done.exit_code == 2
    assert "podReff" in done.stderr


def test_a_claim_by_name_keeps_its_pod_and_one_from_a_template_moves_with_it(simulate):
    named = running("web-1", 1)
    named["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
    cluster = snapshot(
        claim("c", "n1/gpu-0"), nodes=[node("n1"), node("n2")], pods=[named], slices=[offer("n1"), offer("n2")]
    )
    assert "no other node can use its devices" in simulate(job(), cluster=cluster)["move"]["why"]
    from_template = running("web-1", 1)
    from_template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    cluster = snapshot(
        nodes=[node("n1"), node("n2")],
        pods=[from_template],
        slices=[offer("n1"), offer("n2")],
        templates=[template("t")],
    )
    items = simulate(job(), cluster=cluster)
    assert items["move"]["node"] == "n2"
    assert len(items["move"]["devices"]) == 1
