"""The questions that a Prometheus is asked, and what its answers say."""

from __future__ import annotations

import pytest

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import (
    GroupHistory,
    Query,
    Sample,
    merge,
    queries,
    read_history,
    step_seconds,
)
from dra.engine.device_usage.promql import MalformedLabelError

DAY = 24 * 3600.0


def sample(value, namespace="ml", workload="jobs.batch/train", device_class="gpus", at=1000.0):
    labels = {"claim_namespace": namespace, "workload": workload, "device_class": device_class}
    return Sample(metric=labels, value=(at, value))


@pytest.mark.parametrize(
    ("since", "step"),
    [
        pytest.param(60.0, 1, id="a-minute"),
        pytest.param(3600.0, 2, id="an-hour"),
        pytest.param(DAY, 60, id="a-day"),
        pytest.param(7 * DAY, 60, id="a-week"),
        pytest.param(90 * DAY, 772, id="a-quarter"),
    ],
)
def test_points_are_a_minute_apart_at_most_up_to_a_week(since, step):
    assert step_seconds(since) == step


@pytest.mark.parametrize(
    ("namespace", "quoted"),
    [
        pytest.param("ml", '"ml"', id="a-name"),
        pytest.param('x"} or {claim_namespace=~".*', '"x\\"} or {claim_namespace=~\\".*"', id="a-quote-ends-nothing"),
        pytest.param('x\\"', '"x\\\\\\""', id="nor-a-backslash-before-it"),
        pytest.param("a\nb", '"a\\nb"', id="nor-a-line"),
        pytest.param(".*", '".*"', id="a-pattern-is-a-name"),
    ],
)
def test_a_namespace_is_quoted_in_every_selector(namespace, quoted):
    for text in queries(since=DAY, namespaces={namespace}).values():
        assert "{" not in text.replace("{claim_namespace=" + quoted + "}", "")


def test_a_cluster_is_told_from_others_by_labels():
    assert (
        '{cluster="eu-1",claim_namespace="ml"}'
        in queries(since=DAY, namespaces={"ml"}, labels={"cluster": "eu-1"})[Query.HELD]
    )
    with pytest.raises(MalformedLabelError, match="cluster=eu-1"):
        queries(since=DAY, labels={"a-b": "x"})


def answers(**values):
    return {query: [sample(values[query.value])] for query in Query if query.value in values}


IDLE = {"held": "8", "used": "2", "heldHours": "192", "usedHours": "48.5"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(IDLE, GroupHistory(held=8, used=2, held_hours=192.0, used_hours=48.5), id="for-longer"),
        pytest.param({**IDLE, "fullyUsedAt": "500", "heldSince": "300"}, 500.0, id="since-it-was-used-last"),
        pytest.param({**IDLE, "fullyUsedAt": "300", "heldSince": "500"}, 500.0, id="since-it-was-taken"),
        pytest.param({**IDLE, "used": "8", "fullyUsedAt": "500"}, None, id="not-idle"),
        pytest.param({**IDLE, "fullyUsedAt": "NaN"}, None, id="no-number"),
        pytest.param({**IDLE, "fullyUsedAt": "?"}, None, id="no-text-of-a-number"),
    ],
)
def test_idle_since_it_was_last_used_or_taken(given, expected):
    history = read_history(answers(**given))[UsageGroup("ml", "jobs.batch/train", "gpus")]
    if isinstance(expected, GroupHistory):
        assert history == expected
        assert (history.idle, history.idle_hours) == (6, 143.5)
    else:
        assert history.idle_since == expected


def test_what_is_released_keeps_its_hours():
    history = read_history(answers(heldHours="5", usedHours="1"))[UsageGroup("ml", "jobs.batch/train", "gpus")]
    assert (history.held, history.idle, history.idle_hours, history.idle_since) == (0, 0, 4.0, None)


def test_answers_about_other_namespaces_are_dropped():
    told = {Query.HELD: [sample("1"), sample("4", namespace="secret"), sample("9", namespace="<other>")]}
    assert {group.namespace for group in read_history(told, namespaces={"ml"})} == {"ml"}
    assert {group.namespace for group in read_history(told)} == {"ml", "secret", "<other>"}


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param([500.0, 300.0], 300.0, id="the-first"),
        pytest.param([500.0, None], None, id="or-longer-than-the-history"),
        pytest.param([], None, id="of-nothing"),
    ],
)
def test_groups_together_are_idle_since_the_first_of_them_is(since, expected):
    busy = GroupHistory(held=1, used=1, held_hours=2.0, used_hours=2.0)
    idle = [GroupHistory(held=1, held_hours=1.0, idle_since=at) for at in since]
    together = merge([busy, *idle])
    assert (together.idle_since, together.held, together.held_hours) == (expected, 1 + len(since), 2.0 + len(since))
