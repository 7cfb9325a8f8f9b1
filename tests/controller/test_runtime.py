from controller.runtime import large_object_reporter
from dra.kube.codec import ObjectIdentity
from dra.kube.large_objects import LargeObjects
from dra.kube.resources import PODS
from dra.model.event_type import EventType


class Recorder:
    """Remembers what it is given."""

    def __init__(self):
        self.records = []

    def record(self, record):
        self.records.append(record)


def test_an_object_that_is_too_large_gets_an_event():
    recorder, account = Recorder(), LargeObjects()
    account.report = large_object_reporter(recorder, action="Reserve")
    identity = ObjectIdentity(name="fat", namespace="evil", uid="u")
    for _ in range(2):
        account.ledger(PODS).refuse(identity, "too large: it needs more; make it smaller")
    record, again = recorder.records
    assert record == again  # the recorder makes one Event of both
    assert (record.reason, record.severity, record.action) == ("ObjectTooLarge", EventType.WARNING, "Reserve")
    assert (record.regarding.kind, record.regarding.namespace, record.regarding.name) == ("Pod", "evil", "fat")
    assert record.note == (
        "Pod evil/fat: too large: it needs more; make it smaller. Until then its last known state stays in effect"
    )
