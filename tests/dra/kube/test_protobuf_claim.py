import msgspec
import pytest
from google.protobuf import unknown_fields

from dra.kube.client import REWRITE_ATTEMPTS
from dra.kube.errors import Conflict, UnreadableResponse
from dra.kube.protobuf_claim import _CLASSES, _MAGIC, PROTOBUF, ProtobufClaim
from dra.kube.resources import CLAIMS
from dra.kube.transport import Response
from dra.model.claims import ResourceClaim
from tests.dra.kube.scripted import Scripted, client_of, ok, refusal
from tests.violations import for_each_case

SPEC = b'\x0a\x1f{"kind": "GpuConfig",  "a":   1}'
"""Field 2 of a claim, of which nothing is declared: here, whatever the bytes are, they must stay."""

KEY = ("ml", "train")


def varint(number):
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def claim(*, version="7", annotations=(("a", "1"), ("b", "2")), entries=(), allocation=b"devices", extra=b""):
    """A claim as upstream writes it, by hand."""
    pairs = b"".join(field(12, field(1, key.encode()) + field(2, value.encode())) for key, value in annotations)
    meta = field(1, b"train") + field(5, b"uid-train") + field(6, version.encode()) + pairs + field(14, b"keep")
    listed = b"".join(field(2, field(3, b"pods") + field(4, name) + field(5, b"uid-" + name)) for name in entries)
    status = field(1, allocation) + listed + field(4, b"health")
    raw = field(1, meta) + field(2, SPEC) + field(3, status) + extra
    return _MAGIC + field(1, field(1, b"resource.k8s.io/v1") + field(2, b"ResourceClaim")) + field(2, raw)


def parts(body):
    """What is in a claim: its declared parts, and the undeclared ones by number."""
    envelope = _CLASSES["Unknown"].FromString(body.removeprefix(_MAGIC))
    found = _CLASSES["ResourceClaim"].FromString(envelope.raw)
    return found, {f.field_number: f.data for f in unknown_fields.UnknownFieldSet(found)}


def changed(patch, **form):
    exact = ProtobufClaim(claim(**form))
    exact.apply(patch)
    return parts(exact.encode())


def test_what_is_not_written_stays_byte_for_byte():
    found, undeclared = changed({"metadata": {"finalizers": []}}, extra=field(9, b"of a later version"))
    assert undeclared == {2: SPEC, 9: b"of a later version"}
    assert [f.field_number for f in unknown_fields.UnknownFieldSet(found.metadata)] == [1]
    envelope = _CLASSES["Unknown"].FromString(ProtobufClaim(claim()).encode().removeprefix(_MAGIC))
    assert [f.field_number for f in unknown_fields.UnknownFieldSet(envelope)] == [1]


def test_annotations_are_merged_and_finalizers_replaced():
    found, _ = changed({"metadata": {"annotations": {"a": None, "c": "3"}, "finalizers": ["other"]}})
    assert {pair.key: pair.value for pair in found.metadata.annotations} == {"b": "2", "c": "3"}
    assert list(found.metadata.finalizers) == ["other"]


def test_owners_are_replaced():
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    held = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "name": "r", "uid": "uid-r"}
    found, _ = changed({"metadata": {"ownerReferences": [pod, held]}})
    told = [(o.api_version, o.kind, o.name, o.uid, o.controller) for o in found.metadata.owner_references]
    assert told == [("v1", "Pod", "p", "uid-p", True), (*held.values(), False)]
    assert not found.metadata.owner_references[1].HasField("controller")


def test_the_list_is_replaced_and_the_allocation_stays():
    entries = [
        {"resource": "pods", "name": "b", "uid": "u"},
        {"apiGroup": "g", "resource": "r", "name": "n", "uid": "v"},
    ]
    found, _ = changed({"status": {"reservedFor": entries}}, entries=[b"a"])
    assert [(e.api_group, e.resource, e.name, e.uid) for e in found.status.reserved_for] == [
        ("", "pods", "b", "u"),
        ("g", "r", "n", "v"),
    ]
    assert (found.status.allocation, list(found.status.devices)) == (b"devices", [b"health"])


def test_a_deallocation_takes_all_of_the_status():
    found, undeclared = changed({"status": {"allocation": None, "reservedFor": None, "devices": None}}, entries=[b"a"])
    assert not found.status.ListFields()
    assert undeclared == {2: SPEC}


@pytest.mark.parametrize(
    "patch",
    [{"spec": {}}, {"metadata": {"labels": {}}}, {"status": {"allocation": {}}}, {"status": {"conditions": None}}],
    ids=str,
)
def test_other_changes_are_not_tried(patch):
    with pytest.raises(KeyError):
        changed({**patch, **({"spec": {"x": 1}} if "spec" in patch else {})})


NOTE = {"metadata": {"annotations": {"c": "3"}}}


def known(*, version="7", entries=("a",), **changes):
    """The claim that `claim` writes, as it was decided on."""
    meta = {"name": "train", "namespace": "ml", "uid": "uid-train", "resourceVersion": version, "finalizers": ["keep"]}
    meta |= {"annotations": {"a": "1", "b": "2"}} | changes
    listed = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in entries]
    status = {"allocation": {"devices": {}}, "reservedFor": listed}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


async def rewrite(transport):
    return await client_of(transport).update_as_protobuf(CLAIMS, KEY, NOTE, before=known(), subresource="status")


@pytest.mark.parametrize(
    ("version", "entries"), [pytest.param("7", [], id="version"), pytest.param("9", [b"a"], id="content")]
)
async def test_a_rewrite_reads_and_writes_protobuf_of_what_was_decided_on(version, entries):
    after = {"metadata": {"name": "train", "namespace": "ml", "uid": "uid-train", "resourceVersion": "10"}}
    transport = Scripted(Response(200, {}, claim(version=version, entries=entries)), ok(after))
    assert (await rewrite(transport)).metadata.resource_version == "10"
    read, write = transport.requests
    assert (read.method, read.path.rpartition("/")[2], read.accept) == ("GET", "train", PROTOBUF)
    assert (write.method, write.path.rpartition("/")[2], write.content_type) == ("PUT", "status", PROTOBUF)
    found, undeclared = parts(write.body)
    assert (found.metadata.resource_version, undeclared) == (version, {2: SPEC})


async def test_a_claim_that_somebody_has_changed_is_not_rewritten():
    transport = Scripted(*[Response(200, {}, claim(version="9", entries=[b"a", b"b"]))] * REWRITE_ATTEMPTS)
    with pytest.raises(Conflict):
        await rewrite(transport)
    assert {request.method for request in transport.requests} == {"GET"}


async def test_a_race_that_is_lost_is_run_again():
    after = {"metadata": {"name": "train", "namespace": "ml", "uid": "uid-train", "resourceVersion": "10"}}
    found = [Response(200, {}, claim(version=version, entries=[b"a"])) for version in ("8", "9")]
    transport = Scripted(found[0], refusal(409, "Conflict"), found[1], ok(after))
    assert (await rewrite(transport)).metadata.resource_version == "10"


@for_each_case(
    [
        pytest.param({}, {}, True, id="the-same"),
        pytest.param({"version": "9"}, {}, True, id="another-version"),
        pytest.param({"entries": [b"b"]}, {}, False, id="another-entry"),
        pytest.param({"entries": []}, {"entries": ()}, False, id="nobody-is-listed-so-the-allocation-may-be-another"),
        pytest.param({}, {"uid": "uid-other"}, False, id="another-claim"),
        pytest.param({}, {"annotations": {"a": "1"}}, False, id="another-annotation"),
        pytest.param({}, {"finalizers": []}, False, id="another-finalizer"),
        pytest.param({}, {"deletionTimestamp": "2026-11-20T12:00:00Z"}, False, id="being-deleted"),
    ]
)
def test_a_version_is_like_another_if_a_decision_would_be_the_same(there, decided_on, like):
    assert ProtobufClaim(claim(**{"entries": [b"a"], **there})).is_like(known(**decided_on)) is like


@pytest.mark.parametrize("body", [b"{}", _MAGIC + b"\xff\xff", b""])
async def test_an_answer_in_another_form_is_not_rewritten(body):
    with pytest.raises(UnreadableResponse):
        await rewrite(Scripted(Response(200, {}, body)))
