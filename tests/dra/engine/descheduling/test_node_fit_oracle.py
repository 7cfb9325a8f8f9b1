"""All filters against a naive reading of their documentation, on random clusters."""

import dataclasses

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.snapshot import Snapshot
from tests.dra.engine.descheduling import naive_node_fit
from tests.dra.engine.descheduling.clusters import NOW, node, pod

HOSTNAME, ZONE, RACK = KEYS = ("kubernetes.io/hostname", "zone", "rack")
APPS, NAMESPACES, VERSIONS = ("a", "b"), ("ns", "other"), ("1", "2")
TAINTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

maybe = st.booleans


def optional(strategy):
    return st.one_of(st.none(), strategy)


@st.composite
def nodes(draw):
    found = []
    for number in range(draw(st.integers(1, 5))):
        labels = {key: draw(st.sampled_from("xyz")) for key in (ZONE, RACK) if draw(st.integers(0, 3))}
        taints = [{"key": "t", "effect": draw(st.sampled_from(TAINTS))}] if not draw(st.integers(0, 3)) else []
        found.append(
            node(
                f"n{number}",
                cpu=draw(st.sampled_from(("2", "4"))),
                labels=labels,
                taints=taints,
                ready=bool(draw(st.integers(0, 7))),
                unschedulable=not draw(st.integers(0, 7)),
                pods=draw(st.sampled_from(("2", "9"))),
            )
        )
    return found


selectors = st.one_of(
    st.none(),
    st.just({}),
    st.sampled_from(APPS).map(lambda app: {"matchLabels": {"app": app}}),
    st.sampled_from(APPS).map(lambda app: {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}),
)


@st.composite
def terms(draw):
    term = {"topologyKey": draw(st.sampled_from(KEYS)), "labelSelector": draw(selectors)}
    kind = draw(st.integers(0, 4))
    if kind == 1:
        term["namespaces"] = draw(st.lists(st.sampled_from(NAMESPACES), max_size=2))
    if kind == 2:
        term["namespaceSelector"] = draw(st.sampled_from(({}, {"matchLabels": {"team": "red"}})))
    if kind == 3 and term["labelSelector"]:
        term[draw(st.sampled_from(("matchLabelKeys", "mismatchLabelKeys")))] = ["version"]
    return term


@st.composite
def constraints(draw):
    return {
        "topologyKey": draw(st.sampled_from(KEYS)),
        "maxSkew": draw(st.integers(1, 2)),
        "whenUnsatisfiable": draw(st.sampled_from(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))),
        "labelSelector": draw(selectors),
        "minDomains": draw(optional(st.integers(1, 4))),
        "nodeAffinityPolicy": draw(st.sampled_from(("Honor", "Ignore"))),
        "nodeTaintsPolicy": draw(st.sampled_from(("Honor", "Ignore"))),
        "matchLabelKeys": draw(optional(st.just(["version"]))),
    }


@st.composite
def pods(draw, name, hosts):
    spec, affinity = {}, {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if not draw(st.integers(0, 2)):
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms(), max_size=2))}
    if not draw(st.integers(0, 3)):
        requirement = {"key": ZONE, "operator": draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))}
        if requirement["operator"] in ("In", "NotIn"):
            requirement["values"] = [draw(st.sampled_from("xy"))]
        field = {"key": "metadata.name", "operator": draw(st.sampled_from(("In", "NotIn"))), "values": ["n0"]}
        term = draw(st.sampled_from(({"matchExpressions": [requirement]}, {"matchFields": [field]}, {})))
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    if affinity:
        spec["affinity"] = affinity
    if not draw(st.integers(0, 3)):
        spec["nodeSelector"] = {ZONE: draw(st.sampled_from("xy"))}
    if draw(maybe()):
        spec["tolerations"] = [{"operator": "Exists", "effect": draw(st.sampled_from(("", "NoSchedule")))}]
    if draw(maybe()):
        spec["topologySpreadConstraints"] = draw(st.lists(constraints(), min_size=1, max_size=2))
    ports = {}
    if not draw(st.integers(0, 3)):
        ports = {"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": draw(st.sampled_from(("", "::1", "::2")))}]}
    requests = {"requests": {"cpu": draw(st.sampled_from(("500m", "2")))}}
    app, version = draw(st.sampled_from(APPS)), draw(st.sampled_from((None, *VERSIONS)))
    return pod(
        name,
        draw(st.sampled_from(hosts)),
        owner=app,
        namespace=draw(st.sampled_from(NAMESPACES)),
        labels={"version": version} if version else {},
        metadata={"deletionTimestamp": "2026-11-24T12:00:00Z"} if not draw(st.integers(0, 5)) else {},
        status={"phase": draw(st.sampled_from(("Running", "Running", "Running", "Failed")))},
        containers=[{"name": "c", "image": "i", "resources": requests, **ports}],
        **spec,
    )


@st.composite
def clusters(draw):
    hosts = draw(nodes())
    names = [host.metadata.name for host in hosts]
    running = [draw(pods(f"p{number}", names)) for number in range(draw(st.integers(1, 6)))]
    return ClusterObjects(
        nodes=tuple(hosts), pods=tuple(running), namespaces={"ns": {"team": "red"}, "other": {"team": "blue"}}
    )


@given(clusters())
def test_every_filter_answers_as_its_documentation(cluster):
    snapshot = Snapshot(cluster, now=NOW)
    for candidate in cluster.pods:
        if candidate.terminal:
            continue
        own, fitting = candidate.spec.node_name, set()
        for host in cluster.nodes:
            name = host.metadata.name
            wanted = naive_node_fit.unfit_reason(cluster, candidate, name, own=own)
            said = snapshot.unfit_reason(candidate, name)
            assert bool(said) is bool(wanted), (candidate.metadata.name, name, said, wanted)
            if not wanted and name != own:
                fitting.add(name)
        chosen = snapshot.fitting_node(candidate)
        assert (chosen in fitting) if fitting else not chosen
        for name in fitting:
            assert snapshot.fitting_node(candidate, among={name}) == name
        assert snapshot.no_place_reason(candidate).endswith("nodes are available") is (
            len(fitting) == len(cluster.nodes) - 1
        )


@given(clusters(), st.data())
def test_a_move_answers_as_if_the_pod_were_on_its_new_node(cluster, data):
    """Topology shows a moved pod on its new node; what it takes of its old node, and whom it repels, stays."""
    snapshot = Snapshot(cluster, now=NOW)
    moving = [each for each in cluster.pods if not each.terminal]
    if not moving:
        return
    moved = data.draw(st.sampled_from(moving))
    target = snapshot.fitting_node(moved)
    first = moving[0]
    snapshot.fitting_node(first)  # what is remembered must not outlive the move
    snapshot.move(moved, target)
    asked = data.draw(st.sampled_from(moving))
    if asked is moved:
        return
    elsewhere = _on(moved, target)
    others = tuple(each for each in cluster.pods if each is not moved)
    gone = dataclasses.replace(cluster, pods=(*others, elsewhere))
    still_there = dataclasses.replace(cluster, pods=(*others, elsewhere, _terminating(moved)))
    for host in cluster.nodes:
        name = host.metadata.name
        said = snapshot.unfit_reason(asked, name)
        wanted = unfit_reason(gone, asked, name) or unfit_reason(still_there, asked, name, attracts=False)
        assert bool(said) is bool(wanted), (asked.metadata.name, name, said, wanted)


def unfit_reason(cluster, asked, name, *, attracts=True):
    """Return the naive reason; without `attracts`, a pod that moves attracts nobody to the node that it leaves."""
    return naive_node_fit.unfit_reason(cluster, asked, name, own=asked.spec.node_name, attracts=attracts)


def _terminating(pod):
    """Return the pod as the scheduler counts it until it has gone; topology spread does not count it any more."""
    meta = msgspec.structs.replace(pod.metadata, uid="leaving", deletion_timestamp="2026-11-24T12:00:00Z")
    return msgspec.structs.replace(pod, metadata=meta)


def _on(pod, node):
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
