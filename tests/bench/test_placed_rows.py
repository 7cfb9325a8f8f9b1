"""What the bench of placed Reservations reads from the audit log, and what it prints."""

import json

from bench import placed_rows
from bench.placed_rows import Turn


def event(user, verb, resource, *, subresource="", code=200):
    ref = {"resource": resource, "subresource": subresource}
    return {"user": {"username": user}, "verb": verb, "objectRef": ref, "responseStatus": {"code": code}}


def test_requests_are_counted_by_account_from_an_offset_on(tmp_path):
    log = tmp_path / "audit.log"
    before = json.dumps(event("admin", "create", "reservations")) + "\n"
    seen = [
        event("system:serviceaccount:dra-reserve:dra-reserve-extender", "patch", "reservations", subresource="status"),
        event("system:kube-scheduler", "create", "events"),
        event("system:kube-scheduler", "update", "pods", code=409),
        event("kwok", "patch", "pods", subresource="status"),
    ]
    log.write_text(before + "".join(json.dumps(one) + "\n" for one in seen))
    assert placed_rows.requests(log, len(before)) == {
        "dra-reserve-extender: patch reservations/status": 1,
        "kube-scheduler: create events": 1,
        "kube-scheduler: update pods (409)": 1,
    }


def test_components_of_the_cluster_are_not_counted_as_the_sides_own():
    turns = [
        Turn(rate, {"extender": cost, "apiserver": 20.0, "etcd": 3.0}, {}, {"extender: patch": 1.0, "rare": 0.05})
        for rate, cost in ((10.0, 4.0), (12.0, 6.0), (20.0, 5.0))
    ]
    lines = placed_rows.table({(50, "ours"): turns})
    assert "| 50 | ours | 12.0 | 10.0, 12.0, 20.0 | 5.0 | extender 5.0 | 20.0, 3.0 |" in lines
    assert lines[-1] == "| ours | 1.00 extender: patch |"
