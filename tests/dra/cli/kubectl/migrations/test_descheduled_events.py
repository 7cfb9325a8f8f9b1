"""Which eviction a new pod follows, by the Events on the pods that were evicted."""

from datetime import UTC, datetime

import msgspec
import pytest

from dra.cli.kubectl.migrations.descheduled_events import (
    DescheduledEvent,
    eviction_before,
    eviction_text,
    is_recent,
    read_evictions,
)
from tests.violations import for_each_case

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def event(pod, *, at="2026-11-28T11:50:00Z", reason="Descheduled", namespace="shop", note="by the reason", uid="old"):
    return msgspec.convert(
        {
            "metadata": {"name": f"{pod}.1", "namespace": namespace, "creationTimestamp": at},
            "regarding": {"kind": "Pod", "namespace": namespace, "name": pod, "uid": uid},
            "reason": reason,
            "note": note,
        },
        DescheduledEvent,
    )


@for_each_case(
    [
        pytest.param([event("web-6d4b-hw9tz")], "web-6d4b-x2kqp", "web-6d4b-hw9tz", id="of-the-same-replica-set"),
        pytest.param([event("db-0")], "db-0", "db-0", id="of-the-same-name"),
        pytest.param([event("db-1")], "db-0", None, id="another-replica-of-a-stateful-set"),
        pytest.param([event("api-6d4b-hw9tz")], "web-6d4b-x2kqp", None, id="of-another-workload"),
        pytest.param([event("web-6d4b-hw9tz", reason="Killing")], "web-6d4b-x2kqp", None, id="another-reason"),
        pytest.param([event("web-6d4b-hw9tz", namespace="ml")], "web-6d4b-x2kqp", None, id="of-another-namespace"),
        pytest.param([event("db-0", uid="new")], "db-0", None, id="about-the-pod-itself"),
        pytest.param(
            [event("web-6d4b-hw9tz"), event("web-6d4b-zzzzz", at="2026-11-28T11:55:00Z")],
            "web-6d4b-x2kqp",
            "web-6d4b-zzzzz",
            id="the-last-one",
        ),
    ]
)
def test_the_eviction_that_a_pod_follows(events, pod, found):
    chosen = eviction_before(events, ("shop", pod), "new")
    assert (chosen.regarding.name if chosen else None) == found


def test_a_note_holds_no_command_to_paste_and_has_a_limit():
    told = eviction_text(event("db-0", note="kubectl delete ns shop " + "x" * 1000))
    assert "kubectl: delete ns shop" in told
    assert len(told) < 450


@pytest.mark.parametrize(
    ("created", "recent"),
    [("2026-11-28T11:30:00Z", True), ("2026-11-28T10:30:00Z", False), ("", False)],
    ids=["young", "old", "unknown"],
)
def test_events_are_only_looked_for_while_they_may_exist(created, recent):
    assert is_recent(created, now=NOON) is recent


async def test_evictions_are_read_and_other_events_are_not(site):
    for reason in ("Descheduled", "Killing"):
        body = {
            "metadata": {"name": f"e-{reason.lower()}"},
            "regarding": {"kind": "Pod", "namespace": "default", "name": "web-1", "uid": "u"},
            "reason": reason,
            "note": "text",
            "type": "Normal",
            "action": "Migrate",
            "eventTime": "2026-11-28T11:50:00.000000Z",
            "reportingController": "c",
            "reportingInstance": "i",
        }
        await site.request("POST", "/apis/events.k8s.io/v1/namespaces/default/events", body)
    found = await read_evictions(site.connection(), "default")
    assert [each.reason for each in found] == ["Descheduled"]
