"""NodeMetrics get their spec at once, and are not written without end where somebody else wants another one."""

from dra.api.colocation.strategies import ColocationStrategy
from dra.engine.colocation.node_metric_objects import (
    PATCH_PAUSE,
    CreateNodeMetric,
    NodeMetricView,
    PatchNodeMetric,
    collect_policy,
    decide,
)
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.instants import NEVER
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.node_metrics import NodeMetricSpec

STRATEGY = ColocationStrategy(metric_report_interval_seconds=20)
OWNER = OwnerReference(api_version="v1", kind="Node", name="n1", uid=Uid("u1"))


def view(policy=None, *, owned=True, patched_at=-NEVER):
    """Return the view of node n1 whose NodeMetric has this policy."""
    metadata = ObjectMeta(name="n1", uid=Uid("m1"), owner_references=[OWNER] if owned else None)
    metric = WatchedNodeMetric(metadata=metadata, spec=NodeMetricSpec(metric_collect_policy=policy))
    return NodeMetricView(node="n1", uid=Uid("u1"), strategy=STRATEGY, metric=metric, patched_at=patched_at)


def test_a_node_without_a_node_metric_gets_one_that_belongs_to_it():
    plan = decide(NodeMetricView(node="n1", uid=Uid("u1"), strategy=STRATEGY, metric=None), now=0.0)
    (action,) = plan.actions
    assert isinstance(action, CreateNodeMetric)
    assert action.content["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_only_what_differs_of_the_spec_is_written():
    plan = decide(view(collect_policy(STRATEGY) | {"reportIntervalSeconds": 60, "foreign": 1}), now=0.0)
    (action,) = plan.actions
    assert isinstance(action, PatchNodeMetric)
    assert action.body == {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 20}}}


def test_a_node_metric_that_is_right_is_not_written():
    assert decide(view(collect_policy(STRATEGY)), now=0.0).actions == ()


def test_a_node_metric_that_somebody_else_writes_is_written_again_after_a_pause():
    """Two leaders that have read different configurations, or koord-manager: each would undo the other at once."""
    undone = view({}, patched_at=100.0)
    plan = decide(undone, now=100.1)
    assert plan.actions == ()
    assert plan.wake_at == 100.0 + PATCH_PAUSE
    assert decide(undone, now=plan.wake_at).actions != ()
