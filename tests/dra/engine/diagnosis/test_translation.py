"""What became of requests in Koordinator's form."""

import msgspec
import pytest
from hypothesis import given

from dra.engine.diagnosis import pods
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.engine.diagnosis.translation import asks_nothing
from dra.engine.translation import classes, gpu_requests
from dra.engine.translation.requests import Translation
from dra.engine.translation.translated_pods import translate
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.diagnosis import cluster_states
from tests.dra.engine.diagnosis.cluster_states import offer
from tests.dra.engine.diagnosis.koordinator_pods import bound, half, offers, share, unequal
from tests.dra.engine.translation import strategies
from tests.violations import combinations, for_each_case, named

HALF = "koord-gpu-c50-r50-s1"
ENABLED = {"ml": True}
DISABLED = {"ml": False}


def taken(pod, *claims, enabled=ENABLED, server="v1.37.2", gaps=(), **more) -> Snapshot:
    found = cluster_states.snapshot(*claims, pods=(pod,), **({"slices": offers()} | more))
    return msgspec.structs.replace(found, enabled_namespaces=enabled, server=server, gaps=gaps)


def explained(pod, *claims, **more):
    found = pods.explain(ClusterState(taken(pod, *claims, **more)), ("ml", "a"))
    assert found is not None
    return found


def template(name):
    return {"metadata": {"name": name, "namespace": "ml", "resourceVersion": "1"}}


def codes(facts):
    return {each.code for each in facts.problems}


@given(strategies.pods())
def test_a_pod_that_asks_for_nothing_translates_to_nothing(manifest):
    if asks_nothing(msgspec.convert(manifest, SchedulerPod)):
        assert translate(manifest) == Translation()


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"koordinator.sh/qosClass": "LSR"}},
        {"annotations": {"scheduling.koordinator.sh/resource-spec": "{}"}},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
def test_a_label_or_an_annotation_of_koordinator_asks_for_something(metadata):
    assert asks_nothing(msgspec.convert(cluster_states.pod("a"), SchedulerPod))
    assert not asks_nothing(msgspec.convert(cluster_states.pod("a", metadata=metadata), SchedulerPod))


@for_each_case(
    combinations(
        ["containers", "initContainers"],
        [*gpu_requests.GPU_NAMES, *gpu_requests.UNSUPPORTED_NAMES, *classes.BATCH_RESOURCES],
    )
)
def test_a_device_that_a_container_requests_is_asked_for(field, name):
    container = {"name": "main", "resources": {"limits": {name: "1"}}}
    assert not asks_nothing(msgspec.convert(cluster_states.pod("a", **{field: [container]}), SchedulerPod))


def test_a_pod_that_asks_for_nothing_in_koordinators_form_has_no_translation():
    facts = explained(cluster_states.pod("a"), enabled=DISABLED)
    assert facts.translation is None
    assert ProblemCode.NAMESPACE_NOT_ENABLED not in codes(facts)


def test_entries_are_told_with_their_containers_templates_and_claims():
    facts = explained(half(translated=True, koord_gpu_0="a-gpu"), share("a-gpu", "gpu-0", memory="8Gi", core="50"))
    (entry,) = facts.translation.entries
    assert (entry.name, entry.template, entry.containers, entry.claim) == ("koord-gpu-0", HALF, ("main",), "a-gpu")
    assert facts.translation.untranslated == facts.translation.refusals == ()


@pytest.mark.parametrize(
    ("templates", "gaps", "exists"),
    [
        pytest.param([template(HALF)], (), True, id="there"),
        pytest.param([], (), False, id="missing"),
        pytest.param(
            [], (UnreadResource(resource="resourceclaimtemplates.resource.k8s.io", why="no"),), None, id="unread"
        ),
    ],
)
def test_whether_a_template_exists_is_told(templates, gaps, exists):
    facts = explained(half(translated=True), templates=templates, gaps=gaps)
    assert [each.template_exists for each in facts.translation.entries] == [exists]


@pytest.mark.parametrize(
    ("pod", "slices", "makes"),
    [
        pytest.param(half(translated=True), offers(), 1, id="cards-are-published"),
        pytest.param(half(translated=True), [offer("n1")], 0, id="a-ratio-without-cards"),
        pytest.param(bound(translated=True), [offer("n1")], 1, id="cpus-need-no-cards"),
    ],
)
def test_a_missing_template_is_the_controllers_to_make_if_there_are_cards(pod, slices, makes):
    (problem,) = explained(pod, slices=slices).problems
    assert problem.code is ProblemCode.REQUEST_TEMPLATE_MISSING
    assert problem.facts_by_name["makes"] == makes


@for_each_case(
    combinations(
        [
            pytest.param(DISABLED, "v1.37.2", ProblemCode.NAMESPACE_NOT_ENABLED, None, id="not-enabled"),
            pytest.param(ENABLED, "v1.36.0-rc.1", ProblemCode.NOT_TRANSLATED, 1, id="enabled"),
            pytest.param(ENABLED, "v1.35.9", ProblemCode.NOT_TRANSLATED, 0, id="before-1.36"),
            pytest.param(ENABLED, "", ProblemCode.NOT_TRANSLATED, 1, id="version-unknown"),
        ],
        named([half(), bound(), unequal()], ["gpus", "cpus", "refused"]),
    )
)
def test_an_untranslated_request_is_told(enabled, server, found, served, pod):
    facts = explained(pod, enabled=enabled, server=server)
    problem = next(each for each in facts.problems if each.code is found)
    assert problem.facts_by_name.get("served") == served


def test_nothing_is_claimed_about_a_namespace_that_could_not_be_read():
    facts = explained(half(), enabled={})
    assert facts.translation.enabled is None
    assert not codes(facts) & {ProblemCode.NAMESPACE_NOT_ENABLED, ProblemCode.NOT_TRANSLATED}


def test_what_the_translation_would_add_or_refuse_is_told():
    facts = explained(bound(), enabled=DISABLED)
    (entry,) = facts.translation.untranslated
    assert (entry.template, entry.containers) == ("koord-cpu-3-default-lsr", ("c0", "c1"))
    (refusal,) = explained(unequal(), enabled=DISABLED).translation.refusals
    assert refusal.path == "spec.containers[0].resources.limits.cpu"


def test_the_annotation_by_which_a_pod_opts_out_is_known():
    pod = bound()
    pod["metadata"] = pod["metadata"] | {"annotations": {"reserve.dra/cpus": "own"}}
    facts = explained(pod)
    assert facts.translation is None
    assert ProblemCode.UNKNOWN_ANNOTATION not in codes(facts)


def test_limits_survive_decoding():
    decoded = msgspec.convert(unequal(), SchedulerPod)
    (container,) = decoded.spec.containers
    assert (container.resources.requests, container.resources.limits) == ({"cpu": "1"}, {"cpu": "2"})
