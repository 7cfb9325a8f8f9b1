"""Objects that one tenant makes as large as an API server allows."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.view import MigrationPod
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.codec import codec_of
from dra.kube.object_sizes import (
    LARGE_OBJECT_BYTES,
    OBJECT_MEMORY_MAX,
    UNCOUNTED_MEMORY_MAX,
    ObjectTooLargeError,
    memory_of,
    namespace_of,
    plain_data_bytes_max,
)
from dra.kube.resources import CLAIMS, JOBS, POD_MIGRATION_JOBS, PODS, RESERVATIONS, TEMPLATES
from dra.model.claims import WatchedClaim
from dra.model.meta import ObjectMeta, PartialObjectMetadata, UnstructuredObject, content_fault
from dra.model.pods import Pod
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerPod
from dra.model.templates import LargeTemplate, PodGroup, WatchedTemplate
from tests.dra.kube.scripted import page, pod
from tests.violations import combinations, for_each, for_each_case

MIB = 1 << 20
REQUESTS = [{"name": "d", "exactly": {"deviceClassName": "gpu"}}]


# Large values are made when a test needs them, and not kept: each process of pytest-xdist would have them to its end.


def empty_objects():
    """Return the inside of a list of 1.3 MiB."""
    return ",".join(["{}"] * 450_000)


def parameters():
    """Return as many parameters for drivers as a claim may have, of 350 KiB."""
    return [{"opaque": {"driver": "x.example.com", "parameters": {"x": [{}] * 3380}}} for _ in range(32)]


def many():
    """Return labels of 1 MiB."""
    return {f"{i:x}": "" for i in range(100_000)}


def encoded(obj):
    return json.dumps(obj, separators=(",", ":")).encode()


def reservation(name, *, fill=None, version=1):
    fill = empty_objects() if fill is None else fill
    return (
        f'{{"metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"{version}",'
        '"creationTimestamp":"2026-11-22T07:00:00Z"},"spec":{"template":{"metadata":{"namespace":"evil"},'
        f'"x":[{fill}]}},"owners":[{{"object":{{"name":"x"}}}}],"ttl":"1h"}},"status":{{"phase":"Available",'
        '"nodeName":"n1","allocatable":{"cpu":"4"}}}'
    ).encode()


def migration(name):
    return (
        f'{{"metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"1",'
        '"creationTimestamp":"2026-11-22T07:00:00Z"},"spec":{"podRef":{"namespace":"evil","name":"p"},'
        f'"deleteOptions":{{"x":[{empty_objects()}]}}}}}}'
    ).encode()


def claim(name, *, config=None, **metadata):
    config = parameters() if config is None else config
    status = {
        "allocation": {
            "devices": {
                "results": [{"request": "d", "driver": "x", "pool": "p", "device": "gpu-0"}],
                "config": [{**each, "source": "FromClaim"} for each in config],
            }
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
    spec = {"devices": {"requests": REQUESTS, "config": config}}
    return encoded({**pod(name, **metadata), "spec": spec, "status": status})


@pytest.fixture
def traced():
    """Return the bytes that were allocated since, and still are."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()


@for_each_case(
    combinations(
        [Pod, SchedulerPod, MigrationPod],
        [
            pytest.param(lambda: pod("p", labels=many()), id="labels"),
            pytest.param(lambda: pod("p", finalizers=[f"a/{i:x}" for i in range(100_000)]), id="finalizers"),
            pytest.param(
                lambda: pod("p", ownerReferences=[{"kind": "A", "name": f"{i}", "uid": f"{i}"} for i in range(20_000)]),
                id="owners",
            ),
            pytest.param(
                lambda: (
                    pod("p")
                    | {"spec": {"resourceClaims": [{"name": f"{i}", "resourceClaimName": "c"} for i in range(20_000)]}}
                ),
                id="claims",
            ),
        ],
    )
)
def test_a_pod_that_takes_too_much_memory_is_not_decoded(model, part):
    with pytest.raises(
        ObjectTooLargeError, match=r"^too large: its \d+ KiB in JSON need more than the 512 KiB of memory"
    ):
        codec_of(PODS, model).one(encoded(part()))


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (PartialObjectMetadata, lambda: pod("p", labels=many())),
        (PodGroup, lambda: pod("p") | {"spec": {"resourceClaims": [{"name": f"{i}"} for i in range(20_000)]}}),
        (PodDisruptionBudget, lambda: pod("p") | {"spec": {"selector": {"matchLabels": many()}}}),
        (WatchedClaim, lambda: pod("p", finalizers=[f"{i}" for i in range(20_000)])),
        (WatchedTemplate, lambda: pod("p", labels=many())),
    ],
)
def test_objects_of_other_kinds_likewise(model, part):
    with pytest.raises(ObjectTooLargeError):
        codec_of(PODS, model).one(encoded(part()))


def takes(cpu, name="c", **more):
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


BULK = {
    "labels": lambda: {"metadata": {"labels": many()}},
    "finalizers": lambda: {"metadata": {"finalizers": [f"{i}" for i in range(20_000)]}},
    "owners": lambda: {
        "metadata": {"ownerReferences": [{"kind": "A", "name": f"{i}", "uid": f"{i}"} for i in range(20_000)]}
    },
    "claims": lambda: {"spec": {"resourceClaims": [{"name": f"{i}", "resourceClaimName": "c"} for i in range(20_000)]}},
    "tolerations": lambda: {"spec": {"tolerations": [{"key": f"{i}", "operator": "Exists"} for i in range(20_000)]}},
    "node-selector": lambda: {"spec": {"nodeSelector": many()}},
    "containers": lambda: {
        "spec": {
            "containers": [takes("2")] + [takes("1m", f"a{i}") for i in range(3_000)],
            "initContainers": [takes("1", f"b{i}", restartPolicy="Always") for i in range(3)]
            + [takes("7", f"i{i}") for i in range(3_000)],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [takes("1m", f"a{i}") for i in range(3_000)],
            "initContainerStatuses": [takes("1", f"i{i}") for i in range(3_000)],
        },
    },
    "ports": lambda: {"spec": {"containers": [takes("5", ports=[{"hostPort": i + 1} for i in range(20_000)])]}},
}


@for_each(BULK.values(), name=BULK)
def test_a_pod_on_a_node_counts_there_however_large_it_is(make):
    """Otherwise its owner makes room on the node, and takes what a Reservation holds there."""
    bulk = make()
    metadata = pod("fat", version="7")["metadata"] | bulk.get("metadata", {})
    spec = {"nodeName": "n1", "containers": [takes("5")], "priority": 3} | bulk.get("spec", {})
    raw = encoded({"metadata": metadata, "spec": spec, "status": bulk.get("status", {"phase": "Running"})})
    kept = codec_of(PODS, SchedulerPod).one(raw)
    assert memory_of(kept, limit=1 << 30) < UNCOUNTED_MEMORY_MAX
    assert pod_requests(kept) == pod_requests(msgspec.json.decode(raw, type=SchedulerPod))
    assert (kept.metadata.uid, kept.metadata.resource_version, kept.spec.priority) == ("uid-fat", "7", 3)
    assert not kept.terminal
    with pytest.raises(ObjectTooLargeError):
        codec_of(PODS, SchedulerPod).one(
            encoded({"metadata": metadata | {"labels": many()}, "spec": spec | {"nodeName": ""}})
        )


def test_a_large_pod_on_a_node_stays_protected_from_preemption():
    labels = many() | {"scheduling.koordinator.sh/disable-preemptible": "true", "evilkoordinator.sh/a": "b"}
    raw = encoded({**pod("fat", labels=labels), "spec": {"nodeName": "n1"}})
    kept = codec_of(PODS, SchedulerPod).one(raw)
    assert kept.metadata.labels == {"scheduling.koordinator.sh/disable-preemptible": "true"}
    assert PodInfo.from_pod(kept).is_protected


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "x.example.com/gpu"]), st.integers(0, 9), max_size=3)


@given(
    containers=st.lists(AMOUNTS, max_size=3),
    initial=st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=4),
    actual=AMOUNTS,
    copies=st.sampled_from([1, 80]),
)
def test_the_rest_of_a_large_pod_takes_no_less_of_its_node(containers, initial, actual, copies):
    def part(name, requests, restart=""):
        return {"name": name, "resources": {"requests": {each: str(n) for each, n in requests.items()}}} | (
            {"restartPolicy": restart} if restart else {}
        )

    spec = {
        "nodeName": "n1",
        "containers": [part(f"c{i}", each) for i, each in enumerate(containers * copies)],
        "initContainers": [
            part(f"i{i}", each, "Always" if stays else "") for i, (each, stays) in enumerate(initial * copies)
        ],
    }
    status = {"containerStatuses": [part("c0", actual)]}
    whole = msgspec.convert({**pod("p"), "spec": spec, "status": status}, SchedulerPod)
    taken, rest = pod_requests(whole), pod_requests(whole.reduced())
    assert all(rest.get(each, 0) >= amount for each, amount in taken.items())
    if copies == 1:
        assert rest == taken


@for_each_case(
    combinations(
        [
            pytest.param(
                lambda: {"spec": {"containers": [{"name": "c", "env": [{"name": "A"}] * 80_000}]}}, id="environment"
            ),
            pytest.param(
                lambda: {"metadata": pod("p", managedFields=[{"a": many()}])["metadata"]}, id="managed-fields"
            ),
            pytest.param(
                lambda: {"metadata": pod("p", annotations={f"a{i}": "x" * 100 for i in range(2_000)})["metadata"]},
                id="annotations",
            ),
        ],
        [Pod, SchedulerPod, MigrationPod],
    )
)
def test_a_large_pod_of_which_little_is_kept_is_as_any_other(rest, model):
    found = codec_of(PODS, model).one(encoded(pod("p") | rest()))
    assert found.metadata.name == "p"


def test_claims_with_parameters_for_drivers_take_little(traced):
    decode, raw = codec_of(CLAIMS, WatchedClaim).one, claim("c")
    assert len(raw) > 600_000
    decode(raw)  # what is made once for all claims does not count
    before = traced()
    found = [decode(raw) for _ in range(3)]
    assert traced() - before < 3 * 4096
    assert found[0].status.reserved_for[0].uid == "u"
    assert found[0].status.allocation.devices.results[0].device == "gpu-0"
    assert found[0].status.allocation.devices.config is None


def test_a_small_claim_keeps_its_requests_and_parameters():
    found = codec_of(CLAIMS, WatchedClaim).one(claim("c", config=[{"opaque": {"driver": "x", "parameters": {}}}]))
    assert found.spec.devices["requests"] == REQUESTS
    assert found.spec.devices["config"] == [{"opaque": {"driver": "x", "parameters": {}}}]


def test_a_claim_with_many_labels_keeps_its_devices_and_all_that_is_written_back():
    kept = codec_of(CLAIMS, WatchedClaim).one(claim("c", config=[], labels=many(), finalizers=["a/b"]))
    assert memory_of(kept, limit=1 << 30) < UNCOUNTED_MEMORY_MAX
    assert kept.metadata.finalizers == ["a/b"]
    assert kept.status.allocation.devices.results


def test_a_large_template_is_kept_without_its_spec_and_can_be_read(traced):
    template = encoded(
        pod("t")
        | {
            "spec": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"devices": {"requests": REQUESTS, "config": parameters()}},
            }
        }
    )
    decode = codec_of(TEMPLATES, WatchedTemplate).one
    decode(template)  # what is made once for all templates does not count
    before = traced()
    kept = [decode(template) for _ in range(4)]
    assert traced() - before < 4 * 4096
    assert kept[0].is_reduced
    assert kept[0].spec.spec == {}
    del kept
    whole = codec_of(TEMPLATES, LargeTemplate).one(template).to_template()
    assert traced() - before < 100_000  # the parameters stay in JSON
    assert whole.spec.metadata.labels == {"a": "b"}
    assert whole.spec.spec["devices"]["requests"] == REQUESTS
    assert json.loads(msgspec.json.encode(whole.spec.spec))["devices"]["config"] == parameters()


def test_a_reservation_that_is_too_large_holds_what_its_status_says_and_takes_little(traced):
    cache, codec = SchedulerCache(), codec_of(RESERVATIONS, UnstructuredObject)
    cache.observe_reservation(codec.one(reservation("first")))
    before = traced()
    tracemalloc.reset_peak()
    for index in range(10):
        cache.observe_reservation(codec.one(reservation(f"fat-{index}")))
    assert traced() - before < 10 * 8192
    assert tracemalloc.get_traced_memory()[1] - before < 16 * MIB  # plain data of one alone takes 33 MiB
    held = cache.accounting.reservation("uid-fat-1")
    assert held is not None
    assert "too large" in held.parse_error


def test_a_migration_that_is_too_large_cannot_be_read_and_takes_little(traced):
    cache, codec = JobCache(), codec_of(POD_MIGRATION_JOBS, UnstructuredObject)
    cache.observe_job(codec.one(migration("first")))
    before = traced()
    for index in range(10):
        cache.observe_job(codec.one(migration(f"fat-{index}")))
    assert traced() - before < 10 * 8192


def test_an_object_that_is_too_large_says_so():
    found = codec_of(RESERVATIONS, UnstructuredObject).one(reservation("fat"))
    assert content_fault(found.content).startswith("too large: its 1318 KiB in JSON")
    assert found.metadata.key == ("", "fat")
    assert found.content["status"]["nodeName"] == "n1"
    assert "spec" not in found.content


def test_a_usual_reservation_is_whole():
    found = codec_of(RESERVATIONS, UnstructuredObject).one(reservation("r", fill=",".join(['{"name":"a"}'] * 1000)))
    assert content_fault(found.content) == ""
    assert len(found.content["spec"]["template"]["x"]) == 1000


def test_json_in_an_annotation_is_a_string():
    text = '{"a":' * 25_000 + "1" + "}" * 25_000
    raw = encoded(
        {**json.loads(reservation("r", fill="{}")), "metadata": pod("r", annotations={"a": text})["metadata"]}
    )
    assert content_fault(codec_of(RESERVATIONS, UnstructuredObject).one(raw).content) == ""


def test_many_labels_of_a_reservation_are_too_large():
    raw = encoded({**json.loads(reservation("r", fill="{}")), "metadata": pod("r", labels=many())["metadata"]})
    assert content_fault(codec_of(RESERVATIONS, UnstructuredObject).one(raw).content)


def test_other_kinds_of_plain_data_have_no_limit():
    found = codec_of(JOBS, UnstructuredObject).one(reservation("r"))
    assert len(found.content["spec"]["template"]["x"]) == 450_000


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
        lambda some: st.lists(some, max_size=20) | st.dictionaries(st.text(max_size=9), some, max_size=20),
        max_leaves=200,
    )
)
def test_plain_data_never_takes_much_more_than_was_estimated(value):
    raw = msgspec.json.encode(value)
    estimate = plain_data_bytes_max(raw)
    assert memory_of(msgspec.json.decode(raw), limit=1 << 30) <= 3 * estimate + 512


def test_the_estimate_of_empty_objects_is_close():
    raw = f"[{empty_objects()}]".encode()
    assert memory_of(json.loads(raw), limit=1 << 30) <= plain_data_bytes_max(raw) * 1.1


def test_counting_stops_at_the_limit():
    assert OBJECT_MEMORY_MAX < memory_of([[] for _ in range(300_000)], limit=OBJECT_MEMORY_MAX) < 10 * MIB


def test_annotations_do_not_count():
    few = ObjectMeta(name="a", annotations={})
    assert memory_of(few, limit=MIB) == memory_of(ObjectMeta(name="a", annotations={"b": "c" * 100_000}), limit=MIB)


@pytest.mark.parametrize(
    ("resource", "spec", "namespace"),
    [
        (RESERVATIONS, {"template": {"metadata": {"namespace": "ml"}}}, "ml"),
        (RESERVATIONS, {"template": {"metadata": None}}, ""),
        (RESERVATIONS, {"template": "?"}, ""),
        (POD_MIGRATION_JOBS, {"podRef": {"namespace": "ml"}}, "ml"),
        (POD_MIGRATION_JOBS, {"podRef": {"namespace": 5}}, ""),
        (JOBS, {"podRef": {"namespace": "ml"}}, ""),
    ],
)
def test_objects_without_a_namespace_count_for_that_of_their_pods(resource, spec, namespace):
    found = UnstructuredObject(metadata=ObjectMeta(name="a"), content={"spec": spec})
    assert namespace_of(resource, found) == namespace


def test_in_a_list_one_object_that_is_too_large_is_named_and_the_others_are_there():
    fat, large = pod("fat", labels=many()), pod("large", labels={f"a{i}": "" for i in range(2_000)})
    got = codec_of(PODS, Pod).page(page(pod("a"), fat, large, pod("b")).body, first=True)
    assert [each.metadata.name for each in got.items] == ["a", "large", "b"]
    assert [each.key for each in got.unreadable] == [("ml", "fat")]
    assert got.too_large.keys() == {("ml", "fat")}
    assert got.sizes.keys() == {1}
    assert LARGE_OBJECT_BYTES < got.sizes[1] < OBJECT_MEMORY_MAX
