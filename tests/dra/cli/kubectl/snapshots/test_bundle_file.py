"""A bundle explains elsewhere what it explains here, and holds no secret."""

import gzip
import io
import tarfile

import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots import bundle_file
from dra.cli.kubectl.snapshots.redaction import SnapshotRedactor
from dra.engine.claims.generation.held_claims import matches_template
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.snapshot import DiagnosedSnapshot
from dra.model.claims import ResourceClaim
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.templates import TemplateMetadata
from tests.dra.engine.diagnosis.cluster_states import JOB, claim, entry, node, pod, snapshot, workload

SECRET = "hunter2"  # noqa: S105 - of nobody

RESERVED = {
    "annotations": {
        "reserve.dra/reserved-for": "jobs.batch/train",
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"password": "{SECRET}"}}',
    },
    "labels": {"note": SECRET},
}


def redact_snapshot(taken):
    redactor = SnapshotRedactor(taken)
    return msgspec.structs.replace(redactor.rest(), claims=tuple(redactor.claims()), pods=tuple(redactor.pods()))


def secretive():
    """A cluster with a secret wherever there is room for one."""
    held = claim("c", "n1/gpu-0", listed=(JOB, entry("a")), **RESERVED)
    opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {"token": SECRET}}}
    held["spec"]["devices"]["config"] = [opaque]
    held["status"]["allocation"]["devices"]["config"] = [opaque | {"source": "FromClaim"}]
    container = {
        "name": "main",
        "command": [SECRET],
        "env": [{"name": "TOKEN", "value": SECRET}, {"name": "K", "valueFrom": {"secretKeyRef": {"name": SECRET}}}],
        "resources": {"requests": {"cpu": "1"}},
    }
    running = pod("a", "c", on="n1", phase="Running", started=True, metadata={"annotations": {"x": SECRET}})
    running["spec"]["containers"] = [container]
    running["spec"]["volumes"] = [
        {"name": "s", "secret": {"secretName": SECRET}},
        {"name": "d", "persistentVolumeClaim": {"claimName": SECRET}},
    ]
    running["status"]["conditions"].append({"type": "Ready", "status": "False", "message": SECRET})
    template = {
        "metadata": {"namespace": "ml", "name": "t", "annotations": {"x": SECRET}, "labels": {"x": SECRET}},
        "spec": {
            "metadata": {"labels": {"x": SECRET}, "annotations": {"x": SECRET}},
            "spec": {"devices": {"requests": [{"name": "gpu"}], "config": [opaque]}},
        },
    }
    budget = {
        "metadata": {"namespace": "ml", "name": "b", "annotations": {"x": SECRET}},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
    }
    running["metadata"]["labels"] = {"app": SECRET, "note": SECRET}
    found = snapshot(
        held,
        claim("d"),
        pods=(running, pod("b", "d")),
        workloads=(workload(WorkloadPhase.PRESENT),),
        templates=[template],
        budgets=[budget],
        priorities=[{"metadata": {"name": "p", "labels": {"x": SECRET}, "annotations": {"x": SECRET}}}],
    )
    return msgspec.structs.replace(
        found,
        reservations=(reserved(), reserved("odd", odd=SECRET)),
        migrations=(migration(), migration("odd-move", odd=SECRET)),
    )


def migration(name="move", **odd):
    """A PodMigrationJob with a secret wherever a user can write one."""
    content = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"x": SECRET},
            "annotations": {"x": SECRET, "koordinator.sh/evict-reason": SECRET},
        },
        "spec": {
            "podRef": {"namespace": "ml", "name": "a"},
            "reservationOptions": {"template": {"spec": {"template": {"x": SECRET}}}},
            "deleteOptions": {"x": SECRET},
            **odd,
        },
        "status": {"phase": "Running", "more": SECRET},
    }
    return UnstructuredObject(metadata=msgspec.convert(content["metadata"], ObjectMeta), content=content)


def reserved(name="r", **odd):
    """A Reservation with a secret wherever its template has room for one."""
    container = {
        "name": "main",
        "command": [SECRET],
        "env": [{"name": "TOKEN", "value": SECRET}],
        "resources": {"requests": {"cpu": "2"}},
    }
    affinity = {"podAffinity": {"x": SECRET}, "nodeAffinity": {}}
    spec = {"containers": [container], "volumes": [{"secret": SECRET}], "affinity": affinity, "hostname": SECRET}
    metadata = {"namespace": "ml", "labels": {"x": SECRET}, "annotations": {"x": SECRET}}
    content = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"x": SECRET},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET},
            "managedFields": [{"manager": SECRET}],
        },
        "spec": {
            "template": {"metadata": metadata, "spec": spec},
            "owners": [{"labelSelector": {"matchLabels": {"app": "b"}}}],
            "ttl": "0s",
            **odd,
        },
        "status": {"phase": "Available", "nodeName": "n2", "allocatable": {"cpu": "2"}, "more": SECRET},
    }
    return UnstructuredObject(metadata=msgspec.convert(content["metadata"], ObjectMeta), content=content)


def test_a_bundle_gives_the_same_explanations(tmp_path):
    taken = secretive()
    bundle_file.write_bundle(taken, tmp_path / "b.tgz")
    here, there = ClusterState(taken), ClusterState(bundle_file.read_bundle(tmp_path / "b.tgz"))
    for name in ("c", "d"):
        assert claims.explain(here, ("ml", name)) == claims.explain(there, ("ml", name))
    for name in ("a", "b"):
        assert pods.explain(here, ("ml", name)) == pods.explain(there, ("ml", name))
    assert audit(here) == audit(there)


def test_what_rules_compare_is_still_the_same_or_different():
    """Held claims and templates, labels that selectors name."""
    taken = secretive()
    template, claimed = taken.templates[0], taken.claims[0]
    same = msgspec.structs.replace(claimed.metadata, labels={"x": SECRET})
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"token": SECRET}}}]
    devices = {"requests": [{"name": "gpu"}], "config": config}
    like = msgspec.structs.replace(claimed, metadata=same, spec=msgspec.structs.replace(claimed.spec, devices=devices))
    other = msgspec.structs.replace(
        like, spec=msgspec.structs.replace(like.spec, devices=devices | {"config": [{"opaque": {"parameters": 1}}]})
    )
    plain = msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, metadata=TemplateMetadata()))
    found = redact_snapshot(msgspec.structs.replace(taken, claims=(like, other, claimed), templates=(template, plain)))
    assert [matches_template(each, found.templates[1]) for each in found.claims] == [True, False, False]
    assert [len(each.metadata.labels or {}) for each in found.claims] == [1, 1, 0]
    labels = {pod.metadata.name: pod.metadata.labels for pod in found.pods}
    assert labels == {"a": {"app": "redacted"}, "b": None}


def test_no_secret_is_in_a_bundle(tmp_path):
    taken = secretive()
    assert SECRET in msgspec.json.encode(taken).decode()  # the test could fail
    bundle_file.write_bundle(taken, tmp_path / "b.tgz")
    assert SECRET not in gzip.decompress((tmp_path / "b.tgz").read_bytes()).decode()


def test_the_same_snapshot_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        bundle_file.write_bundle(secretive(), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_snapshot_that_is_written_piece_by_piece_is_the_same(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(bundle_file, "_BATCH", batch)
    taken = snapshot(claim("c", "n1/gpu-0"), claim("d"), claim("e"), pods=[pod(name, "d") for name in "abcde"])
    for whole in (taken, msgspec.structs.replace(taken, pods=()), msgspec.structs.replace(taken, claims=())):
        bundle_file.write_bundle(whole, tmp_path / "b.tgz")
        assert bundle_file.read_bundle(tmp_path / "b.tgz") == redact_snapshot(whole)


def _archive(path, **members):
    with tarfile.open(path, "w:gz") as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(
            {"bundle_json": b'{"version": 99}', "snapshot_json": b"{}"}, "version 99", id="of-another-version"
        ),
        pytest.param({"bundle_json": b"{}"}, "not a bundle", id="without-a-snapshot"),
        pytest.param({"bundle_json": b"[", "snapshot_json": b"{}"}, "not a bundle", id="no-json"),
        pytest.param({"bundle_json": b'{"format": "\xff"}', "snapshot_json": b"{}"}, "not a bundle", id="no-text"),
        pytest.param({"bundle_json": b"{}", "snapshot_json": b"\xff"}, "not a bundle", id="no-text-in-the-snapshot"),
        pytest.param(
            {"bundle_json": b"{}", "snapshot_json": b'{"claims": ' + b"[" * 100_000}, "not a bundle", id="nested-deep"
        ),
        pytest.param(
            {"bundle_json": b"{}", "other_json": b"{}"}, "'other.json' is not a file of a bundle", id="a-stranger"
        ),
    ],
)
def test_what_is_no_bundle_is_refused(tmp_path, members, expected):
    _archive(tmp_path / "b.tgz", **members)
    with pytest.raises(bundle_file.MalformedBundleError, match=expected):
        bundle_file.read_bundle(tmp_path / "b.tgz")


LINKS = {
    "hard": [("bundle.json", tarfile.LNKTYPE, "big"), ("snapshot.json", tarfile.LNKTYPE, "big")],
    "symbolic": [("bundle.json", tarfile.SYMTYPE, "big")],
    "in-a-circle": [
        ("bundle.json", tarfile.SYMTYPE, "snapshot.json"),
        ("snapshot.json", tarfile.SYMTYPE, "bundle.json"),
    ],
    "a-device": [("bundle.json", tarfile.CHRTYPE, "")],
}


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
def test_what_is_linked_to_something_is_no_file_of_a_bundle(tmp_path, links):
    """The size in the header of a link says nothing of the file: 6.7 MB became 1.6 GB."""
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as archive:
        for name, kind, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    with pytest.raises(bundle_file.MalformedBundleError, match="is not a file of a bundle"):
        bundle_file.read_bundle(tmp_path / "b.tgz")


@pytest.mark.parametrize("claimed", ["the-size-it-has", "a-size-it-has-not"])
def test_of_a_bomb_no_more_is_unpacked_than_bundles_have(tmp_path, monkeypatch, claimed):
    monkeypatch.setattr(bundle_file, "UNPACKED_BYTES_MAX", 1 << 20)
    info = tarfile.TarInfo("bundle.json")
    info.size = (1 << 24) if claimed == "the-size-it-has" else (1 << 40)
    packed = gzip.compress(info.tobuf() + bytes(1 << 24))
    (tmp_path / "b.tgz").write_bytes(packed)
    with pytest.raises(bundle_file.MalformedBundleError, match="unpacks to more than 1 MiB"):
        bundle_file.read_bundle(tmp_path / "b.tgz")


@pytest.mark.parametrize(
    ("keeps", "shown"),
    [
        pytest.param(
            '{"resources": {"cpu": 2, "memory": "1Gi"}}', "keeps     cpu 2, memory 1024Mi from pods", id="valid"
        ),
        pytest.param(
            '{"resources": {"cpu": -2}}', "problem   annotation node.koordinator.sh/reservation: ", id="invalid"
        ),
    ],
)
def test_a_bundle_says_what_nodes_keep(tmp_path, keeps, shown):
    bundle_file.write_bundle(snapshot(nodes=[node("n1", keeps=keeps)]), tmp_path / "b.tgz")
    done = CliRunner().invoke(main, ["explain", "node", "n1", "--from", str(tmp_path / "b.tgz")])
    assert done.exit_code == 0, done.output
    assert shown in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        pytest.param(
            ["explain", "claim", "c"], 0, "rule 7 Release: jobs.batch/train may still use it", id="explain-claim"
        ),
        pytest.param(["why", "pod/b"], 1, "3 nodes can run it", id="why-pod"),
        pytest.param(["why", "reservation/r"], 0, "held      cpu=2", id="why-reservation"),
        pytest.param(["reservations"], 0, "Available", id="reservations"),
        pytest.param(["reservations", "odd", "-o", "wide"], 0, "Unreadable", id="a-reservation-that-cannot-be-read"),
        pytest.param(["why", "node", "n1"], 0, "held by claim ml/c", id="why-node"),
        pytest.param(["explain", "device", "n1/gpu-0"], 0, "used by 1 pod", id="explain-device"),
        pytest.param(["explain", "claim", "c", "-o", "json"], 0, '"workload"', id="as-json"),
        pytest.param(["audit"], 0, "OwnersOfAnyNamespace   reservation r", id="audit"),
        pytest.param(["get", "claims"], 0, "jobs.batch/train", id="get-claims"),
        pytest.param(["get", "devices", "--no-headers"], 0, "gpu.example.com/n3/gpu-1", id="get-devices"),
        pytest.param(["tree"], 0, "ml: jobs.batch/train", id="tree"),
        pytest.param(["usage", "--by", "node", "-o", "csv"], 0, "n1,2,1,1,1,1,1,50%", id="usage-csv"),
        pytest.param(["usage", "--by", "class"], 0, "gpu.example.com", id="usage-by-class"),
        pytest.param(["migrations"], 0, "move       ml/a     n1       <none>   Running", id="migrations"),
        pytest.param(["explain", "migration", "move"], 0, "migration move: Running", id="explain-migration"),
    ],
)
def test_each_reading_command_takes_a_bundle(tmp_path, arguments, code, shown):
    bundle_file.write_bundle(secretive(), tmp_path / "b.tgz")
    done = CliRunner().invoke(main, [*arguments, "--from", str(tmp_path / "b.tgz")])
    assert (done.exit_code, done.exception is None or code) == (code, done.exception is None or code), done.output
    assert shown in done.stdout


@pytest.mark.parametrize(
    "arguments", [["explain", "claim", "nope"], ["explain", "job", "x"], ["explain", "claim"]], ids=" ".join
)
def test_what_is_not_there_is_an_error(tmp_path, arguments):
    bundle_file.write_bundle(secretive(), tmp_path / "b.tgz")
    assert CliRunner().invoke(main, [*arguments, "--from", str(tmp_path / "b.tgz")]).exit_code == 2


def test_a_snapshot_is_made_of_structs_that_can_be_read_again():
    assert msgspec.json.decode(msgspec.json.encode(secretive()), type=DiagnosedSnapshot) == secretive()
    assert {ResourceClaim, DiagnosedPod} <= {type(each) for each in (*secretive().claims, *secretive().pods)}


def test_a_thousand_problems_of_one_kind_are_told_once(tmp_path):
    gate = {"schedulingGates": [{"name": "reserve.dra/claim"}]}
    bundle_file.write_bundle(
        snapshot(claim("c"), pods=tuple(pod(f"p{n}", "c", **gate) for n in range(1000))), tmp_path / "b.tgz"
    )
    done = CliRunner().invoke(main, ["audit", "--from", str(tmp_path / "b.tgz")])
    assert "1000 pods wait for the removal of their scheduling gate" in done.stdout
    assert len(done.stdout.splitlines()) < 30


def test_of_a_claim_that_is_waited_for_the_next_step_is_a_pod_that_waits(tmp_path):
    bundle_file.write_bundle(snapshot(claim("c"), pods=(pod("a", "c"),)), tmp_path / "b.tgz")
    done = CliRunner().invoke(main, ["explain", "claim", "c", "--from", str(tmp_path / "b.tgz")])
    assert "next      kubectl dra explain pod a -n ml" in done.stdout
