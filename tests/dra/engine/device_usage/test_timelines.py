"""Time lines from a Prometheus: what is asked, and what its answers become."""

from __future__ import annotations

import pytest

from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import GROUPINGS, HELD_METRIC
from dra.engine.device_usage.promql import NAMES_BYTES_MAX
from dra.engine.device_usage.timelines import SPANS, Series, Span, TimelineQuery, read_timelines, timeline_queries

QUARTERS = Span(seconds=3600, period=900)
NOW = 100_000.0
TRAIN = UsageGroup("ml", "jobs.batch/train", "gpus")
SERVE = UsageGroup("web", "deployments.apps/serve", "gpus")


def asked(by, *groups, namespaces=None):
    return list(timeline_queries(by, groups, span=QUARTERS, namespaces=namespaces, labels={}))


def series(*values, **labels):
    times = [NOW - 900 * (len(values) - 1 - index) for index in range(len(values))]
    return Series(metric=labels, values=list(zip(times, map(str, values), strict=True)))


@pytest.mark.parametrize(
    ("by", "namespaces", "chosen"),
    [
        pytest.param("namespace", None, '{claim_namespace="ml"}', id="a-namespace"),
        pytest.param("workload", {"ml"}, '{claim_namespace="ml",workload="jobs.batch/train"}', id="a-workload"),
        pytest.param("class", None, '{device_class="gpus"}', id="a-class-of-all-namespaces"),
        pytest.param("class", {"ml"}, '{claim_namespace="ml",device_class="gpus"}', id="a-class-of-one"),
    ],
)
def test_only_the_shown_groups_are_asked_for(by, namespaces, chosen):
    (query,) = asked(by, TRAIN, namespaces=namespaces)
    assert HELD_METRIC + chosen in query.held
    assert query.held.count("{") == query.used.count("{") == 1


def test_no_query_is_longer_than_a_proxy_takes():
    groups = [UsageGroup(f"team-{number}", "jobs.batch/" + "x" * 250, "gpus") for number in range(40)]
    queries = asked("workload", *groups)
    assert max(len(query.held) for query in queries) < NAMES_BYTES_MAX + 600
    assert sorted(name for query in queries for name in query.names) == sorted(f"{g[0]}/{g[1]}" for g in groups)


def lines(by, query, *, held=(), used=()):
    return read_timelines(by, [(query, held, used)], span=QUARTERS, end=NOW)


def test_periods_end_now_and_a_missing_one_had_nothing():
    (query,) = asked("namespace", TRAIN)
    told = lines(
        "namespace", query, held=[series(2, 4, claim_namespace="ml")], used=[series("NaN", claim_namespace="ml")]
    )
    assert told["ml"].held == (0.0, 0.0, 2.0, 4.0)
    assert told["ml"].used == (0.0, 0.0, 0.0, 0.0)


def test_groups_that_were_not_asked_for_are_dropped():
    (query,) = asked("namespace", TRAIN)
    assert (
        lines("namespace", query, held=[series(2, claim_namespace="web")], used=[series(2, claim_namespace="web")])
        == {}
    )


def test_a_group_of_two_queries_counts_in_its_own():
    """Alternatives of two labels select their product: the query of ml/a and web/b has web/a, too."""
    one = TimelineQuery(names=frozenset({"ml/a", "web/b"}), held="", used="")
    other = TimelineQuery(names=frozenset({"web/a"}), held="", used="")
    answer = [series(1, claim_namespace="web", workload="a")]
    told = read_timelines("workload", [(one, answer, ()), (other, answer, ())], span=QUARTERS, end=NOW)
    assert told["web/a"].held[-1] == 1.0


def test_a_class_is_the_sum_of_its_namespaces():
    queries = asked("class", TRAIN, SERVE, namespaces={"x" * NAMES_BYTES_MAX, "y" * NAMES_BYTES_MAX})
    told = read_timelines(
        "class", [(query, [series(2, device_class="gpus")], ()) for query in queries], span=QUARTERS, end=NOW
    )
    assert (len(queries), told["gpus"].held[-1]) == (2, 4.0)


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_a_line_is_at_most_a_hundred_periods(by, span):
    assert span.periods <= 100
    assert span.periods * span.period == span.seconds
    assert asked(by) == []
