"""Reservations and annotations that cannot be meant, as somebody may have got them past admission."""

import json

GROUP = "scheduling.koordinator.sh"
AFFINITY = f"{GROUP}/reservation-affinity"
EXACT = f"{GROUP}/exact-match-reservation"
RESIZE = f"{GROUP}/reservation-resize-allocatable"
OPTIONS = f"{GROUP}/reservation-restricted-options"
KEPT = "node.koordinator.sh/reservation"
DEEP = '{"resources":' + '{"a":' * 25_000 + "1" + "}" * 25_001
TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def owner(**selector):
    return {"owners": [{"labelSelector": selector}]}


def template(**spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"template": {"spec": {"containers": [container], **spec}}}


def _deep(levels):
    found = "x"
    for _ in range(levels):
        found = {"a": found}
    return found


def requests(**amounts):
    return template(containers=[{"name": "c", "image": "i", "resources": {"requests": amounts}}])


RESERVATIONS = {
    "resize-no-json": ({}, {RESIZE: "cpu=4"}, f"annotation {RESIZE}: is not valid JSON"),
    "resize-a-list": ({}, {RESIZE: "[]"}, "Expected `object`"),
    "resize-typo": ({}, {RESIZE: '{"resource": {}}'}, "resource: unknown field"),
    "resize-word": ({}, {RESIZE: '{"resources": {"cpu": "four"}}'}, "resources.cpu: 'four' is not a quantity"),
    "resize-negative": ({}, {RESIZE: '{"resources": {"cpu": "-1"}}'}, "resources.cpu: -1 is negative"),
    "resize-endless": ({}, {RESIZE: json.dumps({"resources": {"cpu": "9" * 5000}})}, "longer than any quantity"),
    "resize-deep": ({}, {RESIZE: DEEP}, "is nested too deeply"),
    "options-no-json": ({"allocatePolicy": "Restricted"}, {OPTIONS: "cpu"}, f"annotation {OPTIONS}: is not valid JSON"),
    "options-typo": ({"allocatePolicy": "Restricted"}, {OPTIONS: '{"names": []}'}, "unknown field `names`"),
    "kept-no-json": ({}, {KEPT: "x"}, f"annotation {KEPT}: is not valid JSON"),
    "kept-policy": ({}, {KEPT: '{"applyPolicy": "Some"}'}, "applyPolicy: 'Some' is not valid"),
    "owner-key": (owner(matchLabels={"a b": "c"}), {}, "matchLabels: 'a b' is not a valid label key"),
    "owner-value": (owner(matchLabels={"a": "b c"}), {}, "matchLabels[a]: 'b c' is not a valid label value"),
    "amount": (requests(cpu="x"), {}, "requests.cpu: 'x' is not a quantity"),
    "negative": (requests(cpu="-1"), {}, "requests.cpu: -1 is negative"),
    "template-deep": (
        template(affinity=_deep(100)),
        {},
        "spec.template.spec.affinity.a.a.a…: is nested more than 64 levels deep",
    ),
    "template-affinity": (
        template(affinity=["zone"]),
        {},
        "spec.template.spec.affinity: must be an object, as in a Pod",
    ),
    "template-namespace": (
        {"template": {"namespace": "A/b", **template()["template"]}},
        {},
        "spec.template.namespace: 'A/b' is not a valid namespace name",
    ),
    "boolean": (requests(cpu=True), {}, "requests.cpu: must be a quantity"),
}
"""Name → spec, annotations, and what condition Readable has to say."""

PODS = {
    "no-json": (AFFINITY, "{", "is not valid JSON"),
    "no-object": (AFFINITY, "[]", "Expected `object`, got `array`"),
    "typo": (AFFINITY, '{"nam": "r"}', "unknown field `nam`"),
    "number": (AFFINITY, '{"name": 1}', "Expected `str`, got `int`"),
    "deep": (AFFINITY, '{"reservationSelector":' + DEEP + "}", "Expected `str`, got `object`"),
    "operator": (
        AFFINITY,
        json.dumps({TERMS: {"reservationSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}}),
        "reservationSelectorTerms[0].matchExpressions[0]: operator: 'Is' is none of",
    ),
    "no-values": (
        AFFINITY,
        json.dumps({TERMS: {"reservationSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}),
        "values: In and NotIn need values",
    ),
    "exact": (EXACT, '{"resourceNames": "cpu"}', "Expected `array | null`"),
    "exact-typo": (EXACT, '{"names": []}', "unknown field `names`"),
}
"""Name → annotation, its text, and what the scheduler is told."""

NODES = {
    "no-json": ("{", "is not valid JSON"),
    "field": ('{"resource": {}}', "resource: unknown field"),
    "word": ('{"resources": {"cpu": "two"}}', "resources.cpu: 'two' is not a quantity"),
    "too-much": ('{"resources": {"cpu": "99"}}', "resources.cpu: 99 is more than the node has"),
    "backwards": ('{"reservedCPUs": "3-1"}', "runs backwards"),
    "deep": (DEEP, "is nested too deeply"),
}
"""Name → text of the annotation, and what the Event says."""
