"""Translated pods: entries and references are added, GPU resources taken off, and nothing happens a second time."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from dra.engine.translation.requests import Translation
from dra.engine.translation.translated_pods import change_refusals, translate, translated_pod
from tests.dra.engine.translation.examples import container, gpus, lsr, pod
from tests.dra.engine.translation.strategies import pods


def translated(given_pod: dict[str, Any]) -> dict[str, Any]:
    found = translate(given_pod)
    assert found.refusals == ()
    return translated_pod(given_pod, found.entries)


def test_bound_cpus_are_an_entry_that_each_container_refers_to() -> None:
    made = translated(lsr("1", "2"))
    assert made["spec"]["resourceClaims"] == [
        {"name": "koord-cpus", "resourceClaimTemplateName": "koord-cpu-3-default-lsr"}
    ]
    assert [each["resources"]["claims"] for each in made["spec"]["containers"]] == [[{"name": "koord-cpus"}]] * 2
    assert [each["resources"]["limits"] for each in made["spec"]["containers"]] == [{"cpu": "1"}, {"cpu": "2"}]


def test_gpu_resources_are_kept_in_an_annotation() -> None:
    asked = gpus("main", gpu=50)
    asked["resources"]["limits"]["memory"] = "1Gi"
    made = translated(pod(asked, container("side", cpu="1")))
    main, side = made["spec"]["containers"]
    assert main["resources"] == {"limits": {"memory": "1Gi"}, "claims": [{"name": "koord-gpu-0"}]}
    assert "claims" not in side["resources"]
    assert made["metadata"]["annotations"] == {
        "node.koordinator.sh/extended-resource-spec": '{"containers":{"main":{"requests":{"koordinator.sh/gpu":"50"},'
        '"limits":{"koordinator.sh/gpu":"50"}}}}'
    }


def test_claims_of_the_pod_itself_stay() -> None:
    given_pod = lsr("1", resourceClaims=[{"name": "mine", "resourceClaimName": "c"}])
    given_pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "mine"}]
    made = translated(given_pod)
    assert [each["name"] for each in made["spec"]["resourceClaims"]] == ["mine", "koord-cpus"]
    assert made["spec"]["containers"][0]["resources"]["claims"] == [{"name": "mine"}, {"name": "koord-cpus"}]


def test_a_pod_without_entries_stays_as_it_is() -> None:
    given_pod = pod(container(cpu="1"))
    assert translated(given_pod) == given_pod


@given(given_pod=pods())
def test_a_translated_pod_translates_to_nothing(given_pod: dict[str, Any]) -> None:
    found = translate(given_pod)
    assert not (found.entries and found.refusals)
    if not found.refusals:
        assert translate(translated_pod(given_pod, found.entries)) == Translation()


def spoil(part: Any, path: list[int], junk: object) -> Any:
    """Return a document with junk in a place that numbers choose."""
    if not path or not part or not isinstance(part, dict | list):
        return junk
    keys = sorted(part) if isinstance(part, dict) else range(len(part))
    key = keys[path[0] % len(keys)]
    copy: Any = part.copy()
    copy[key] = spoil(part[key], path[1:], junk)
    return copy


@example(given_pod=lsr("1"), path=[0, 1, 0], junk=["x"])  # a label that is a list
@given(
    given_pod=pods(),
    path=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    junk=st.sampled_from([None, "x", 7, 1.5, True, [], [7], {}, {"a": 7}, ["x", {"name": 7}]]),
)
def test_a_pod_that_no_server_has_validated_is_translated_or_refused(
    given_pod: dict[str, Any], path: list[int], junk: object
) -> None:
    spoilt = spoil(given_pod, path, junk)
    found = translate(spoilt)
    if not found.refusals:
        translated_pod(spoilt, found.entries)
    change_refusals(given_pod, spoilt)
    change_refusals(spoilt, given_pod)
