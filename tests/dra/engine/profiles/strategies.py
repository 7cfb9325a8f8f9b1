"""Strategies for profiles, and for the pods that they apply to."""

from typing import Any, Final

from hypothesis import strategies as st

from tests.dra.engine.profiles.examples import BATCH_CPU, BATCH_MEMORY, QOS, SKIP, container, pod, profile

KEYS: Final = ("app", "tier", "example.com/team", "koordinator.sh/mutated", "koordinator.sh/priority-class")
VALUES: Final = ("", "x", "y", "koord-batch", "koord-prod")
ANNOTATION_VALUES: Final = ("", "true", "it's", "two\nlines", "\\", '{"a": ["b"]}', "'}] + [JSONPatch{op: 'remove'")
CLASSES: Final = ("", "koord-batch", "koord-batch", "koord-mid", "koord-prod", "low")
PATCHES: Final = ({}, {"spec": {"terminationGracePeriodSeconds": 5}}, {"metadata": {"labels": {"tier": "p"}}})
AMOUNTS: Final = {
    "cpu": ("1", "570m", "0", "0.1", "1500u", "12", "999999", "33333333n", "2e3", "1k"),
    "memory": ("1Gi", "512Mi", "1e9", "0", "128974848"),
    BATCH_CPU: ("500", "2k", "200m", "0.5"),
    BATCH_MEMORY: ("1Gi", "1500m"),
    "nvidia.com/gpu": ("1",),
}

_labels: Final = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)


@st.composite
def requirements(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a requirement of a selector."""
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True))
    return {
        "key": draw(st.sampled_from(KEYS)),
        "operator": operator,
        **({"values": values} if operator in ("In", "NotIn") else {}),
    }


@st.composite
def selectors(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a selector, which selects everything in half of the cases."""
    if draw(st.booleans()):
        return {}
    return {
        "matchLabels": draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1)),
        "matchExpressions": draw(st.lists(requirements(), max_size=1)),
    }


@st.composite
def profiles(draw: st.DrawFn, *, name: str) -> dict[str, Any]:
    """Draw a profile that is supported."""
    mapping = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(KEYS), max_size=1)
    spec = {
        "selector": draw(selectors()),
        "qosClass": draw(st.sampled_from([None, "BE", "BE", "LS"])),
        "priorityClassName": draw(st.sampled_from(CLASSES)),
        "koordinatorPriority": draw(st.sampled_from([None, 0, 7, 1000])),
        "schedulerName": draw(st.sampled_from(["", "", "koord-scheduler"])),
        "labels": draw(_labels),
        "annotations": draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(ANNOTATION_VALUES), max_size=2)),
        "labelKeysMapping": draw(mapping),
        "annotationKeysMapping": draw(mapping),
        "patch": draw(st.sampled_from(PATCHES)),
    }
    skips = draw(st.sampled_from([{}, {}, {}, {SKIP: "true"}]))
    given = {field: value for field, value in spec.items() if value not in ("", {})}
    return profile(name, own_annotations=skips, **given)


@st.composite
def containers(draw: st.DrawFn, *, name: str) -> dict[str, Any]:
    """Draw a container whose limits are not below its requests."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for resource in draw(st.lists(st.sampled_from([*AMOUNTS]), max_size=3, unique=True)):
        amount = draw(st.sampled_from(AMOUNTS[resource]))
        both = resource in ("nvidia.com/gpu", BATCH_CPU, BATCH_MEMORY)
        where = "both" if both else draw(st.sampled_from(["requests", "limits", "both"]))
        if where != "limits":
            requests[resource] = amount
        if where != "requests":
            limits[resource] = amount
    return container(name, requests=requests, limits=limits)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a pod with one of the priorities of the examples."""
    labels = {**draw(_labels), **draw(st.sampled_from([{}, {}, {QOS: "BE"}, {QOS: "LS"}]))}
    init = draw(st.lists(containers(name="init"), max_size=1))
    made = pod(
        *(draw(containers(name=f"c{number}")) for number in range(draw(st.integers(1, 2)))),
        labels=labels,
        priority=draw(st.sampled_from([0, 0, 10, 3500, 5500, 7500, 9500])),
        **({"initContainers": init} if init else {}),
    )
    made["metadata"]["annotations"] = draw(
        st.dictionaries(st.sampled_from(KEYS), st.sampled_from(ANNOTATION_VALUES), max_size=1)
    )
    return made
