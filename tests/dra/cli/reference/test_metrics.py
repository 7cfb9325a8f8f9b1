"""The rules of Prometheus for names and labels, applied to everything that is exposed."""

import re
from operator import itemgetter

from controller.extender.metrics import OUTCOMES
from dra.cli.reference.metrics import LABEL_VALUES, metric_families
from dra.engine.device_usage.history import HELD_METRIC, USED_METRIC
from tests.violations import for_each

FAMILIES = [(f"{process} {family.name}", family) for process, found in metric_families().items() for family in found]
UPSTREAM = ("resourceclaim_controller_", "dynamic_resource_allocation_")
"""Named by kube-controller-manager up to 1.36 and from 1.37 on; its dashboards and alerts go on working."""

LIMITED = {HELD_METRIC: {"workload"}, USED_METRIC: {"workload"}}
"""Labels with names of which the metric has a limited number."""

UNBOUNDED = {"pod", "claim", "namespace", "node", "uid", "name", "workload", "message", "error"}


@for_each(FAMILIES, name=itemgetter(0))
def test_names_follow_the_rules_of_prometheus(member):
    _, family = member
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", family.name)
    assert family.name.startswith(("dra_reserve_", *UPSTREAM))
    assert (family.type == "counter") == family.name.endswith("_total")
    assert not family.name.endswith(("_bucket", "_sum", "_count", "_gauge", "_counter", "_histogram"))
    if family.type == "histogram":
        assert family.name.endswith("_seconds"), "times are in the base unit, and say so"
    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent)(_|$)", family.name)


@for_each(FAMILIES, name=itemgetter(0))
def test_labels_are_a_closed_set_and_name_no_object(member):
    _, family = member
    assert set(family.labels) <= LABEL_VALUES.keys()
    assert not set(family.labels) & UNBOUNDED - (LIMITED.get(family.name) or set())


@for_each(FAMILIES, name=itemgetter(0))
def test_each_metric_says_what_it_tells(member):
    _, family = member
    assert family.help
    assert family.help[0].isupper() or family.help[0] == "1"


def test_no_label_is_described_that_nothing_has():
    assert {label for found in metric_families().values() for family in found for label in family.labels} == set(
        LABEL_VALUES
    )
    assert all(f"`{outcome}`" in LABEL_VALUES["outcome"] for outcome in OUTCOMES)
