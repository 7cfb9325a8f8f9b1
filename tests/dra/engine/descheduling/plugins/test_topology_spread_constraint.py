"""RemovePodsViolatingTopologySpreadConstraint: how many pods leave a domain, which, and for where."""

import pytest
from pydantic import ValidationError

from dra.api.descheduler.spread_plugin_args import RemovePodsViolatingTopologySpreadConstraintArgs
from dra.engine.descheduling.plugins.topology_spread_constraint import RemovePodsViolatingTopologySpreadConstraint
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import job, node, pod
from tests.dra.engine.descheduling.plugins.spreading import GPU_TAINT, balance, names, replicas
from tests.violations import for_each_case

PLUGIN = RemovePodsViolatingTopologySpreadConstraint()
HOSTNAME = "kubernetes.io/hostname"
SOFT = {"constraints": ["ScheduleAnyway"]}
SMALL = "50m"


def constraint(skew=1, *, key="zone", selector="web", when="DoNotSchedule", **more):
    """Return a constraint; `selector` is the app whose pods count, or a selector, or None."""
    chosen = {"matchLabels": {"app": selector}} if isinstance(selector, str) else selector
    given = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": chosen, **more}
    return {name: value for name, value in given.items() if value is not None}


def spread(counts, *constraints, **more):
    """Return pods on n1, n2, … that all have some constraints."""
    return replicas(counts, cpu="100m", topologySpreadConstraints=list(constraints or [constraint()]), **more)


def zones(count, **more):
    """Return nodes n1, n2, …, each in a zone of its own."""
    return [zone_node(f"n{number}", f"z{number}", **more) for number in range(1, count + 1)]


def zone_node(name, zone, *, cpu="100", **more):
    labels = {"zone": zone, **more.pop("labels", {})}
    return node(name, cpu=cpu, labels=labels, pods="250", **more)


@for_each_case(
    [
        pytest.param(counts, skew, count, id=f"{'-'.join(map(str, counts))}-maxSkew-{skew}-gives-{count}")
        for counts, skew, count in [
            ([3, 1], 1, 1),
            ([5, 2], 1, 1),
            ([4, 0], 1, 2),
            ([0, 1, 100], 1, 66),
            ([0, 1, 3, 5], 1, 3),
            ([8, 7, 0], 1, 5),
            ([2, 6], 2, 1),
            ([2, 5, 3, 8, 5, 7], 1, 5),
            ([5, 5, 5], 1, 0),
            ([2, 1], 1, 0),
            ([10, 0], 1, 5),
            ([10, 0], 3, 4),
            ([10, 0], 5, 3),
            ([3, 3, 1], 1, 1),
            ([9, 1, 1], 1, 5),
            ([9, 1, 1], 2, 5),
            ([4, 4, 1], 1, 2),
            ([5, 4, 3, 2, 1], 1, 3),
            ([12, 4, 4], 3, 4),
            ([7, 1, 1, 1], 1, 5),
            ([1, 0, 0], 1, 0),
            ([2, 0, 0], 1, 1),
        ]
    ],
)
def test_domains_give_until_no_two_differ_by_more_than_max_skew(counts, skew, count):
    assert len(names(balance(PLUGIN, zones(len(counts)), spread(counts, constraint(skew))))) == count


HOSTS = [node(f"n{number}", labels={"pool": "web"} if number > 3 else {}) for number in range(1, 7)]
SEVENTH = node("n7", labels={"pool": "web"})
ON_HOSTS = {"nodeSelector": {"pool": "web"}}
TAINTED = {"taints": [GPU_TAINT]}


def revisions(*hashes):
    """Return a pod of each ReplicaSet on n1, with a constraint on the pods of the same revision."""
    by_revision = constraint(matchLabelKeys=["pod-template-hash"])
    return [
        pod(f"web-{place}", "n1", labels={"pod-template-hash": revision}, topologySpreadConstraints=[by_revision])
        for place, revision in enumerate(hashes)
    ]


def legal_but_uneven():
    """Return ten pods, 4/3/3 by zone; 7 nodes of two zones hold one pod each, one node of the third holds two."""
    both = [constraint(), constraint(key=HOSTNAME, when="ScheduleAnyway")]
    return spread({"a1": 1, "a2": 1, "a3": 1, "a4": 1, "b1": 2, "b2": 1, "c1": 2, "c2": 1}, *both)


LEGAL_NODES = [
    *(zone_node(f"a{number}", "a") for number in range(1, 6)),
    *(zone_node(f"b{number}", "b") for number in range(1, 3)),
    *(zone_node(f"c{number}", "c") for number in range(1, 3)),
]


@for_each_case(
    [
        pytest.param(
            [zone_node("n1", "z1", **TAINTED), *zones(3)[1:]],
            spread([4, 2, 2], constraint(nodeTaintsPolicy="Honor")),
            0,
            id="pods-on-nodes-with-untolerated-taints-do-not-count-under-honor",
        ),
        pytest.param(
            HOSTS,
            spread([0, 0, 0, 3, 3, 2], constraint(key=HOSTNAME), **ON_HOSTS),
            0,
            id="hosts-that-the-pods-do-not-select-are-no-domains",
        ),
        pytest.param(
            [*HOSTS, SEVENTH],
            spread([0, 0, 0, 3, 3, 2], constraint(key=HOSTNAME), **ON_HOSTS),
            2,
            id="a-new-host-gets-two-of-3-3-2",
        ),
        pytest.param(
            HOSTS,
            spread([0, 0, 0, 4, 3, 1], constraint(key=HOSTNAME), **ON_HOSTS),
            1,
            id="4-3-1-on-the-selected-hosts-gives-one",
        ),
        pytest.param(
            zones(2),
            [
                *spread([2, 2]),
                *spread([2], prefix="ending", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            ],
            0,
            id="pods-that-are-being-deleted-do-not-count",
        ),
        pytest.param(
            [zone_node("n1", "z1", cpu="250m"), *zones(3)[1:]],
            spread([2, 3, 4]),
            0,
            id="a-zone-without-room-receives-nobody",
        ),
        pytest.param(
            [zone_node(name, zone) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"))],
            spread([1, 4, 2, 1]),
            1,
            id="1-4-and-2-1-in-two-zones-gives-one",
        ),
        pytest.param(zones(2), revisions("one", "one"), 1, id="two-pods-of-one-revision-are-two"),
        pytest.param(zones(2), revisions("one", "two"), 0, id="two-pods-of-two-revisions-are-one-each"),
        pytest.param(zones(2), spread([2, 2], constraint(minDomains=3)), 0, id="too-few-domains-move-nobody"),
        pytest.param(
            [zone_node("n1", "z1"), zone_node("n2", "z2", unschedulable=True)],
            spread([4, 0]),
            0,
            id="a-cordoned-zone-receives-nobody",
        ),
        pytest.param(
            zones(2),
            [*spread([3, 1]), *spread([0, 2], prefix="kept", labels={"protected": ""})],
            0,
            id="protected-pods-count-in-the-smaller-domain",
        ),
        pytest.param(
            zones(2),
            [*spread([3, 3]), *spread([3], prefix="kept", labels={"protected": ""})],
            1,
            id="protected-pods-count-in-the-larger-domain",
        ),
        pytest.param(zones(2), spread([4, 0], constraint(selector=None)), 0, id="no-selector-matches-nobody"),
        pytest.param(
            zones(2),
            [*spread([1, 1], constraint(selector={})), *replicas([2, 0], owner="job", cpu=None)],
            1,
            id="an-empty-selector-matches-everybody-in-the-namespace",
        ),
        pytest.param(
            zones(2),
            [*spread([1, 1], constraint(selector={})), *replicas([4, 0], owner="job", namespace="other")],
            0,
            id="pods-of-other-namespaces-do-not-count",
        ),
        pytest.param(
            [*zones(2), zone_node("n3", "z3", ready=False)],
            spread([3, 1, 0]),
            0,
            id="a-domain-whose-nodes-are-not-ready-still-counts-for-the-scheduler",
        ),
        pytest.param(
            zones(2),
            [
                pod(f"p{number}", "n1", nodeSelector={"zone": "z1"}, topologySpreadConstraints=[constraint()])
                for number in range(3)
            ],
            0,
            id="pods-that-select-their-zone-have-one-domain",
        ),
        pytest.param(
            [*zones(2), node("n3", cpu="100")],
            spread([3, 1, 4]),
            1,
            id="nodes-without-the-key-do-not-count",
        ),
        pytest.param(
            zones(2), spread([4, 0], status={"phase": "Succeeded"}), 0, id="pods-that-have-ended-do-not-count"
        ),
        pytest.param(
            [zone_node("n1", "z1"), zone_node("n2", "z2", **TAINTED)],
            spread([2, 0], tolerations=[{"key": "gpu", "operator": "Exists"}]),
            1,
            id="a-tolerated-taint-keeps-nobody-away",
        ),
        pytest.param(
            [zone_node("n1", "z1"), zone_node("n2", "z2", **TAINTED)],
            spread([2, 0]),
            0,
            id="an-untolerated-taint-keeps-everybody-away",
        ),
        pytest.param(
            [zone_node("n1", "z1"), zone_node("n2", "z2", taints=[{**GPU_TAINT, "effect": "PreferNoSchedule"}])],
            spread([2, 0]),
            1,
            id="a-taint-that-only-prefers-keeps-nobody-away",
        ),
    ],
)
def test_what_counts_and_who_may_go(cluster, pods, count):
    assert len(names(balance(PLUGIN, cluster, pods))) == count


@pytest.mark.parametrize(
    ("args", "requires_place", "count"),
    [
        pytest.param({}, True, 0, id="both-checks"),
        pytest.param({}, False, 0, id="the-plugins-own-check"),
        pytest.param({"topologyBalanceNodeFit": False}, True, 0, id="the-profiles-check"),
        pytest.param({"topologyBalanceNodeFit": False}, False, 1, id="no-check"),
    ],
)
def test_each_check_for_a_place_has_an_argument_of_its_own(args, requires_place, count):
    cluster = [zone_node("n1", "z1", cpu="250m"), *zones(3)[1:]]
    result = balance(PLUGIN, cluster, spread([2, 3, 4]), args=args, requires_place=requires_place)
    assert len(names(result)) == count
    if count == 0:
        own = args.get("topologyBalanceNodeFit", True)
        assert bool(result.notes) is own
        assert [str(decision.verdict.refusal) for decision in result.decisions] == ([] if own else ["NoPlace"])


def test_the_only_zone_below_the_average_is_cordoned_and_no_place_is_asked_for():
    cluster = [zone_node("n1", "z1"), zone_node("n2", "z2", unschedulable=True)]
    args = {"topologyBalanceNodeFit": False}
    assert len(names(balance(PLUGIN, cluster, spread([4, 0]), args=args, requires_place=False))) == 2
    assert names(balance(PLUGIN, cluster, spread([4, 0]), args=args)) == []


def test_a_move_that_breaks_another_hard_constraint_is_none():
    # Zones are hard and even at 4/3/3; the hosts of the small zones hold two pods, an empty host is in the large one.
    assert names(balance(PLUGIN, LEGAL_NODES, legal_but_uneven(), args={"constraints": ["ScheduleAnyway"]})) == []


def test_soft_constraints_are_looked_at_only_when_asked_for():
    pods = spread([4, 0], constraint(when="ScheduleAnyway"))
    assert names(balance(PLUGIN, zones(2), pods)) == []
    assert len(names(balance(PLUGIN, zones(2), pods, args=SOFT))) == 2


def test_a_second_constraint_sees_what_the_first_moved():
    old = spread([3, 0], constraint(1), prefix="old")
    new = spread([3, 0], constraint(2), prefix="new")
    assert len(names(balance(PLUGIN, zones(2), [*old, *new]))) == 3


def test_pods_with_the_constraint_go_before_pods_that_only_match_its_selector():
    carriers = spread([2, 0], constraint(selector={}))
    jobs = replicas([4, 0], owner="job", cpu="100m")
    gone = names(balance(PLUGIN, zones(2), [*jobs, *carriers]))
    assert sorted(gone[:2]) == ["web-0", "web-1"]
    assert len(gone) == 3


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param([{"priority": 100}, {"priority": 0}], ["p1"], id="the-highest-priority-stays"),
        pytest.param([{"created": -1000}, {"created": -10}], ["p1"], id="then-the-oldest-stays"),
        pytest.param([{"created": -10}, {"created": -10}], ["p0"], id="equals-go-by-name"),
        pytest.param([{"labels": {"protected": ""}}, {}], ["p1"], id="the-next-goes-for-a-protected-one"),
        pytest.param([{}, {"nodeSelector": {"pool": "web"}}], ["p0"], id="pods-that-select-nodes-go-last", marks=()),
    ],
)
def test_the_least_important_pod_goes(pods, gone):
    policy = constraint(nodeAffinityPolicy="Ignore")
    cluster = zones(2, labels={"pool": "web"})
    given = [pod(f"p{number}", "n1", topologySpreadConstraints=[policy], **more) for number, more in enumerate(pods)]
    assert names(balance(PLUGIN, cluster, given)) == gone
    assert names(balance(PLUGIN, cluster, given[::-1])) == gone


def test_a_pod_that_fits_only_where_it_is_does_not_keep_the_others():
    pinned = spread([1, 0], constraint(nodeAffinityPolicy="Ignore"), prefix="pinned", nodeSelector={"zone": "z1"})
    free = spread([2, 0], constraint(nodeAffinityPolicy="Ignore"), prefix="free")
    assert len(names(balance(PLUGIN, zones(2), [*pinned, *free]))) == 1


def test_pods_may_go_only_to_domains_below_the_average():
    result = balance(PLUGIN, zones(4), spread([6, 2, 0, 4]))
    assert sorted(decision.verdict.node for decision in result.decisions) == ["n2", "n3", "n3", "n3"]
    assert all(decision.receivers <= {"n2", "n3"} for decision in result.decisions)


def test_a_pod_on_the_way_counts_where_it_is_to_run():
    pods = spread([3, 0])
    assert len(names(balance(PLUGIN, zones(2), pods))) == 1
    assert names(balance(PLUGIN, zones(2), pods, jobs=[job(pods[0], node="n2")])) == []


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        pytest.param(Limits(per_node=1), 2, id="a-node-at-its-limit-does-not-stop-the-next"),
        pytest.param(Limits(per_namespace=1), 2, id="a-namespace-at-its-limit-does-not-stop-the-next"),
        pytest.param(Limits(total=1), 1, id="the-total-ends-the-round"),
        pytest.param(Limits(total=0), 0, id="a-total-of-zero-lets-nobody-go"),
    ],
)
def test_limits_stop_what_they_are_about(limits, count):
    pods = [*spread([6, 0]), *spread([0, 6], namespace="other")]
    assert len(names(balance(PLUGIN, zones(2), pods, limits=limits))) == count


@pytest.mark.parametrize(
    ("args", "count"),
    [
        pytest.param({"namespaces": {"exclude": ["ns"]}}, 0, id="excluded-namespace"),
        pytest.param({"namespaces": {"include": ["ns"]}}, 1, id="included-namespace"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "web"}}}, 1, id="selected"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "api"}}}, 0, id="not-selected"),
        pytest.param({"constraints": []}, 1, id="no-constraints-stand-for-the-default"),
        pytest.param({"constraints": ["DoNotSchedule", "ScheduleAnyway"]}, 1, id="both-kinds"),
    ],
)
def test_arguments_select_pods_and_constraints(args, count):
    assert len(names(balance(PLUGIN, zones(2), spread([3, 1]), args=args))) == count


def test_pods_that_the_arguments_do_not_select_still_count():
    pods = [*spread([1, 3]), *spread([2, 0], prefix="old", labels={"tier": "old"})]
    args = {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}
    assert names(balance(PLUGIN, zones(2), pods, args=args)) == []


def test_the_reason_names_both_domains():
    reasons = [decision.reason for decision in balance(PLUGIN, zones(2), spread([3, 1])).decisions]
    assert reasons == ["zone z1 has 3 of the pods that are to be spread, z2 has 1: more than maxSkew 1 apart"]


def test_ever_other_constraints_of_a_tenant_share_their_domains():
    pods = [
        pod(f"p{number}", "n1", cpu=None, topologySpreadConstraints=[constraint(1 + number)]) for number in range(60)
    ]
    assert len(names(balance(PLUGIN, zones(2), pods))) == 30


@pytest.mark.parametrize(
    ("args", "where"),
    [
        pytest.param({"includeSoftConstraints": True}, "includeSoftConstraints", id="a-field-of-v1alpha1"),
        pytest.param({"constraints": ["Whenever"]}, "constraints.0", id="unknown-constraint"),
        pytest.param({"topologyBalanceNodeFit": "yes"}, "topologyBalanceNodeFit", id="not-a-boolean"),
        pytest.param({"nodeFit": True}, "nodeFit", id="an-argument-of-the-evictor"),
    ],
)
def test_wrong_arguments_are_refused_by_path(args, where):
    with pytest.raises(ValidationError) as caught:
        RemovePodsViolatingTopologySpreadConstraintArgs.model_validate(args)
    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [where]
