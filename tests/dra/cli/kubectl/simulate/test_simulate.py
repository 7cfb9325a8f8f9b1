"""What would be placed where, what would wait and why: on a cluster of three nodes with two devices each."""

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.cli.kubectl.simulate.simulated_manifests import parse_manifests
from dra.cli.kubectl.snapshots import bundle_file
from tests.dra.cli.kubectl.simulate.manifests import asking, manifest, placed, template, using
from tests.dra.engine.diagnosis.cluster_states import claim, entry, node, offer, pod, rule, snapshot


def test_pods_that_share_a_claim_go_where_its_device_is(simulate):
    found = simulate(asking("c"), *(manifest("Pod", f"p{n}", using("c")) for n in range(3)))
    assert placed(found) == {"p0", "p1", "p2"}
    assert len({(each["node"], *each["devices"]) for each in found.values()}) == 1


def test_a_job_is_its_pods_each_with_a_claim_of_its_own(simulate):
    job = manifest("Job", "train", {"parallelism": 7, "template": {"spec": using(template="t")}}, version="batch/v1")
    found = simulate(template("t"), job)
    assert len(placed(found)) == 6  # devices there are
    assert len({device for each in found.values() for device in each["devices"]}) == 6
    (waits,) = (each for each in found.values() if not each["placed"])
    assert "cannot allocate all claims" in waits["why"]


def test_what_is_held_is_not_given_again_and_pods_that_wait_already_come_first(simulate):
    cluster = snapshot(
        claim("a", "n1/gpu-0", "n1/gpu-1", listed=(entry("x"),)),
        claim("b", count=2),
        pods=(pod("x", "a", on="n1", phase="Running", started=True), pod("y", "b")),
    )
    found = simulate(
        asking("c", 2),
        manifest("Pod", "p", using("c")),
        asking("d", 2),
        manifest("Pod", "q", using("d")),
        cluster=cluster,
    )
    assert placed(found) == {"p"}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        pytest.param((), 6, id="as-it-is"),
        pytest.param(("--add-nodes=n1=2",), 10, id="more-nodes"),
        pytest.param(("--cordon=n1", "--cordon=n2"), 2, id="cordoned"),
    ],
)
def test_a_change_of_the_cluster_can_be_tried(simulate, options, count):
    job = manifest("Job", "train", {"parallelism": 20, "template": {"spec": using(template="t")}}, version="batch/v1")
    assert len(placed(simulate(template("t"), job, options=options))) == count


def test_devices_with_binding_conditions_count_as_ready(simulate):
    slow = offer("n1", devices=0)
    conditions = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Lost"]}
    slow["spec"]["devices"] = [{"name": "gpu-0", **conditions}]
    cluster = snapshot(nodes=[node("n1")], slices=[slow])
    assert placed(simulate(asking("c"), manifest("Pod", "p", using("c")), cluster=cluster)) == {"p"}


@pytest.mark.parametrize(
    ("tolerations", "nodes"),
    [
        pytest.param([], {"n3"}, id="not-tolerated"),
        pytest.param([{"key": "service", "operator": "Exists"}], {"n1", "n2", "n3"}, id="tolerated"),
    ],
)
def test_devices_that_a_device_taint_rule_taints_are_not_given_out(simulate, tolerations, nodes):
    cluster = snapshot(rules=[rule(pool="n1"), rule("both", effect="NoExecute", pool="n2")])
    made = template("t")
    made["spec"]["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = tolerations
    job = manifest("Job", "train", {"parallelism": 6, "template": {"spec": using(template="t")}}, version="batch/v1")
    found = simulate(made, job, cluster=cluster)
    assert {each["node"] for each in found.values() if each["placed"]} == nodes
    assert len(placed(found)) == 2 * len(nodes)


def test_what_a_node_keeps_is_not_there(simulate):
    cluster = snapshot(nodes=[node("n1", keeps='{"resources": {"cpu": "6"}}')])
    found = simulate(manifest("Pod", "a", using(cpu=3)), manifest("Pod", "b", using(cpu=2)), cluster=cluster)
    assert placed(found) == {"b"}
    assert "Insufficient cpu" in found["a"]["why"]


@pytest.mark.parametrize("why", ["not-ready", "unreachable"])
def test_devices_of_a_node_that_is_not_ready_are_not_given_out(simulate, why):
    """The scheduler reads taints, not conditions: the node lifecycle controller taints such nodes."""
    taints = ({"key": f"node.kubernetes.io/{why}", "effect": "NoSchedule"},)
    cluster = snapshot(nodes=[node("n1", ready=False, taints=taints)])
    found = simulate(asking("c"), manifest("Pod", "p", using("c")), cluster=cluster)
    assert f"untolerated taint {{node.kubernetes.io/{why}" in found["p"]["why"]


def test_a_reservation_can_be_dropped(simulate):
    cluster = snapshot(*(claim(f"h{n}", f"n{n}/gpu-0", f"n{n}/gpu-1", listed=(entry(f"x{n}"),)) for n in (1, 2, 3)))
    documents = (asking("c"), manifest("Pod", "p", using("c")))
    assert placed(simulate(*documents, cluster=cluster)) == set()
    found = simulate(*documents, cluster=cluster, options=("--drop-reservation=ml/h2",))
    assert found["p"]["node"] == "n2"


def test_all_that_a_workload_has_can_be_dropped(simulate):
    reserved = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train"}}
    held = (claim("h1", "n1/gpu-0", "n1/gpu-1", **reserved), claim("h2", "n2/gpu-0", "n2/gpu-1", **reserved))
    cluster = snapshot(*held, claim("h3", "n3/gpu-0", "n3/gpu-1"))
    job = manifest("Job", "next", {"parallelism": 6, "template": {"spec": using(template="t")}}, version="batch/v1")
    found = simulate(template("t"), job, cluster=cluster, options=("--drop-reservation=jobs.batch/train",))
    assert {each["node"] for each in found.values()} == {"n1", "n2", ""}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(using(cpu=100), "Insufficient cpu", id="room"),
        pytest.param(using(nodeSelector={"zone": "x"}), "didn't match Pod's node affinity/selector", id="selector"),
        pytest.param(using("nowhere"), 'resourceclaim "nowhere" not found', id="no-claim"),
        pytest.param(using(template="nowhere"), "waiting for dynamic resource controller", id="no-template"),
        pytest.param(using(schedulingGates=[{"name": "others/gate"}]), "has scheduling gates", id="gates-of-others"),
    ],
)
def test_it_says_why_a_pod_would_wait(simulate, spec, why):
    assert why in simulate(manifest("Pod", "p", spec))["p"]["why"]


def test_our_own_gate_is_no_obstacle(simulate):
    assert simulate(manifest("Pod", "p", using(schedulingGates=[{"name": "reserve.dra/claim"}])))["p"]["placed"]


def test_a_pod_of_higher_priority_comes_first(simulate):
    pods = [manifest("Pod", name, using("c" + name, priority=priority)) for name, priority in (("a", 1), ("b", 9))]
    found = simulate(asking("ca", 2), asking("cb", 2), *pods, cluster=snapshot(nodes=[node("n1")]))
    assert placed(found) == {"b"}


URGENT = {"metadata": {"name": "urgent"}, "value": 1000}
CALM = {"metadata": {"name": "calm"}, "value": 500, "preemptionPolicy": "Never", "globalDefault": True}


def full(**more):
    """A node on which two pods run: of priority 1 with a device, and of priority 2."""
    pods = [
        pod(
            name,
            *claims,
            on="n1",
            phase="Running",
            priority=priority,
            containers=[{"resources": {"requests": {"cpu": "4"}}}],
        )
        for name, claims, priority in (("x", ("h",), 1), ("y", (), 2))
    ]
    held = claim("h", "n1/gpu-0", listed=(entry("x"),))
    return snapshot(held, pods=tuple(pods), nodes=[node("n1")], priorities=[URGENT, CALM], **more)


def test_it_names_who_would_be_ended_for_a_pod_of_higher_priority(simulate):
    found = simulate(manifest("Pod", "p", using(cpu=3, priorityClassName="urgent")), cluster=full())
    assert found["p"]["node"] == "n1"
    (victim,) = found["p"]["preempts"]
    assert victim == {"namespace": "ml", "name": "x", "node": "n1", "priority": 1, "violatesBudget": False}


def test_what_a_victim_had_is_there_for_the_next(simulate):
    later = manifest("Pod", "q", using("c", cpu=1))
    alone = simulate(asking("c", 2), later, cluster=full())
    assert not alone["q"]["placed"]
    found = simulate(
        asking("c", 2), manifest("Pod", "p", using(cpu=3, priorityClassName="urgent")), later, cluster=full()
    )
    assert found["q"]["devices"] == ["gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-1"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"priorityClassName": "calm"}, id="of-its-class"),
        pytest.param({}, id="of-the-default-class"),
        pytest.param({"priorityClassName": "urgent", "preemptionPolicy": "Never"}, id="of-its-own"),
    ],
)
def test_who_never_preempts_waits(simulate, spec):
    assert not simulate(manifest("Pod", "p", using(cpu=3, **spec)), cluster=full())["p"]["placed"]


def test_a_budget_is_gone_against_only_if_nothing_else_helps(simulate):
    budget = {
        "metadata": {"name": "b", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    pods = [
        pod(
            name,
            on="n1",
            phase="Running",
            metadata={"labels": {"app": name}},
            containers=[{"resources": {"requests": {"cpu": "4"}}}],
        )
        for name in ("x", "y")
    ]
    cluster = snapshot(pods=tuple(pods), nodes=[node("n1")], priorities=[URGENT], budgets=[budget])
    small, large = (manifest("Pod", "p", using(cpu=cpu, priorityClassName="urgent")) for cpu in (4, 8))
    assert [each["name"] for each in simulate(small, cluster=cluster)["p"]["preempts"]] == ["y"]
    told = {each["name"]: each["violatesBudget"] for each in simulate(large, cluster=cluster)["p"]["preempts"]}
    assert told == {"x": True, "y": False}


def test_a_priority_class_that_is_not_there_is_an_error_and_one_of_the_manifests_counts(simulate):
    asked = manifest("Pod", "p", using(cpu=3, priorityClassName="new"))
    assert "pod ml/p: PriorityClass new does not exist" in simulate(asked, cluster=full()).stderr
    new = {"kind": "PriorityClass", "metadata": {"name": "new"}, "value": 7}
    assert simulate(new, asked, cluster=full())["p"]["preempts"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("--cordon=nope",), "node nope: not found", id="node"),
        pytest.param(("--drop-reservation=nope",), "claim ml/nope: not found", id="claim"),
        pytest.param(("--add-nodes=n1",), "NODE=COUNT", id="count"),
    ],
)
def test_what_is_not_there_cannot_be_changed(simulate, arguments, expected):
    assert expected in simulate(manifest("Pod", "p", using()), options=arguments).stderr


def test_what_is_not_simulated_is_said(tmp_path):
    bundle_file.write_bundle(snapshot(), tmp_path / "b.tgz")
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all([manifest("Service", "s"), manifest("Pod", "p", using())]))
    done = CliRunner().invoke(main, ["simulate", f"--filename={tmp_path}/m.yaml", f"--from={tmp_path}/b.tgz"])
    assert "not simulated: Service s" in done.stderr
    assert "1 of 1 pods would be scheduled, 0 would stay Pending" in done.stderr


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        pytest.param(["text"], "a manifest must be an object", id="no-object"),
        pytest.param([{"kind": "Pod"}], "Pod \\(without a name\\)", id="no-name"),
        pytest.param([manifest("Pod", "p", {"containers": 5})], "Pod p", id="no-list"),
        pytest.param([manifest("ResourceClaim", "c", {"devices": []})], "ResourceClaim c", id="no-claim"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_named(documents, expected):
    with pytest.raises(MalformedManifestError, match=expected):
        parse_manifests(documents, namespace="ml")


def test_lists_fractions_and_dates_are_read():
    (found,) = parse_manifests(
        [{"kind": "List", "items": [manifest("Pod", "p", using(cpu=0.5))]}, None], namespace="x"
    ).pods
    assert found.spec.containers[0].resources.requests == {"cpu": "0.5"}


def costly(**resources):
    found = offer("n1", devices=0)
    found["spec"]["devices"] = [{"name": f"gpu-{i}", "nodeAllocatableResources": resources} for i in range(4)]
    return found


@pytest.mark.parametrize(
    ("cost", "count"),
    [
        pytest.param({"overhead": {"perPod": "1"}}, 4, id="enough-for-all"),
        pytest.param({"overhead": {"perPod": "3"}}, 2, id="overhead"),
        pytest.param({"mapping": {"deviceMultiplier": "2"}}, 2, id="mapping"),
        pytest.param({"mapping": {"deviceMultiplier": "8"}}, 0, id="more-than-the-node-has"),
    ],
)
def test_what_devices_take_of_their_node_is_not_given_again(simulate, cost, count):
    cluster = snapshot(nodes=[node("n1")], slices=[costly(cpu=cost)])
    job = manifest("Job", "train", {"parallelism": 4, "template": {"spec": using(template="t")}}, version="batch/v1")
    assert len(placed(simulate(template("t"), job, cluster=cluster))) == count


def test_a_claim_that_stands_for_resources_of_its_node_is_not_shared(simulate):
    cluster = snapshot(nodes=[node("n1")], slices=[costly(cpu={"mapping": {"deviceMultiplier": "1"}})])
    found = simulate(asking("c"), manifest("Pod", "p", using("c")), manifest("Pod", "q", using("c")), cluster=cluster)
    (waits,) = (each for each in found.values() if not each["placed"])
    assert "node allocatable resource claim c has a mapped device and cannot be shared across pods" in waits["why"]


@pytest.mark.parametrize(
    ("server", "timestamp", "is_placed"),
    [
        pytest.param("v1.37.2", "2026-11-20T11:59:00Z", True, id="with-a-time"),
        pytest.param("v1.37.2", None, False, id="without"),
        pytest.param("v1.35.4", None, True, id="without-before-kubernetes-1.36"),
    ],
)
def test_a_scheduler_cannot_list_pods_in_an_allocation_without_a_time(simulate, server, timestamp, is_placed):
    allocated = claim("c", "n1/gpu-0", listed=(entry("x"),))
    allocated["status"]["allocation"]["allocationTimestamp"] = timestamp
    cluster = msgspec.structs.replace(snapshot(allocated), server=server)
    found = simulate(manifest("Pod", "p", using("c")), cluster=cluster)
    assert found["p"]["placed"] is is_placed
    assert is_placed or "allocationTimestamp" in found["p"]["why"]


def test_the_status_of_a_claim_of_the_manifests_is_dropped_as_by_the_api_server(simulate):
    exported = asking("c") | {"status": claim("c", "n1/gpu-0", listed=(entry("x"),))["status"]}
    found = simulate(exported, manifest("Pod", "p", using("c")))
    assert placed(found) == {"p"}


def test_a_pod_that_names_its_node_is_told_as_not_simulated(run):
    done = run(asking("c"), manifest("Pod", "p", using("c", nodeName="n1")))
    told = "not simulated: pod ml/p: spec.nodeName is set, so no scheduler places it or allocates its claims\n"
    assert told in done.stderr


def rack_slice(on, generation, count):
    """A slice of a pool that several nodes share; its one device is of one node."""
    found = offer(on, 1)
    found["metadata"]["name"] = f"{on}-{generation}"
    found["spec"]["pool"] = {"name": "rack", "generation": generation, "resourceSliceCount": count}
    found["spec"]["devices"][0]["name"] = f"{on}-gpu"
    return found


def test_a_copy_of_a_node_whose_pool_spans_several_nodes_has_devices(simulate):
    cluster = snapshot(
        nodes=[node("n1"), node("n2")],
        slices=[rack_slice("n1", 2, 2), rack_slice("n2", 2, 2), rack_slice("n1", 1, 3)],
    )
    job = manifest("Job", "train", {"parallelism": 4, "template": {"spec": using(template="t")}}, version="batch/v1")
    found = simulate(template("t"), job, cluster=cluster, options=("--add-nodes=n1=2",))
    assert len(placed(found)) == 4


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param(
            manifest("ResourceSlice", "n9-gpus", offer("n9", resourceSliceCount=0)["spec"]),
            "ResourceSlice n9-gpus: spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            id="slice",
        ),
        pytest.param(
            manifest("DeviceClass", "new", {"extendedResourceName": "gpu"}),
            'DeviceClass new: spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name',
            id="class",
        ),
    ],
)
def test_an_object_that_the_api_server_would_refuse_is_refused(run, document, told):
    done = run(document, manifest("Pod", "p", using()))
    assert done.exit_code == 2
    assert told in done.stderr


def unnamed(kind, spec, **more):
    document = manifest(kind, "x", spec, **more)
    del document["metadata"]["name"]
    document["metadata"]["generateName"] = "run-"
    return document


def test_objects_whose_name_the_server_would_generate_are_simulated_each(simulate):
    job = unnamed("Job", {"parallelism": 1, "template": {"spec": using()}}, version="batch/v1")
    found = simulate(job, job, unnamed("Pod", using()), unnamed("Pod", using()), unnamed("ResourceClaim", {}))
    assert placed(found) == {"run-simulated-0", "run-simulated-2-0", "run-simulated", "run-simulated-2"}


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        pytest.param("Job", "batch.volcano.sh/v1alpha1", {"tasks": []}, id="job-of-volcano"),
        pytest.param("Node", "example.org/v1", {"size": 3}, id="node-of-others"),
        pytest.param("Reservation", "example.org/v1", {"room": 5}, id="reservation-of-others"),
        pytest.param("ResourceClaim", "example.org/v1", {"devices": 5}, id="claim-of-others"),
    ],
)
def test_kinds_of_others_with_a_known_name_are_not_simulated(run, kind, version, spec):
    done = run(manifest(kind, "x", spec, version=version))
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"not simulated: {kind} x" in done.stderr


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param(
            manifest("Deployment", "web", version="apps/v1"),
            "Deployment web: spec.template.spec is required",
            id="template",
        ),
        pytest.param({"kind": "Pod", "metadata": "web"}, "Pod: metadata must be a mapping", id="metadata"),
    ],
)
def test_a_manifest_that_lacks_what_every_server_requires_is_named(run, document, text):
    done = run(document)
    assert (done.exit_code, text in done.stderr) == (2, True), (done.output, done.exception)
