"""CEL expressions of the admission policies for profiles and batch pods.

They are constants: profiles reach the policy as data (``params``), so no text of a user becomes part of an expression.
The variables repeat `dra.engine.profiles.profiled_pods` and `dra.engine.profiles.guard` step by step.
"""

from typing import Final

from dra.api.profiles.well_known import ANNOTATION_SKIP_RESOURCES, TRANSLATED_RESOURCES
from dra.cli.translation_expressions import IS_NO_MIRROR, literal
from dra.engine.profiles import guard
from dra.engine.profiles.batch_requests import BATCH_CLASS, BATCH_PRIORITIES, KINDS
from dra.engine.translation import classes, pod_fields
from dra.model.koordinator_classes import (
    LABEL_PRIORITY_CLASS,
    LABEL_QOS_CLASS,
    PRIORITY_CLASS_NAMES,
    PRIORITY_RANGES,
)

HAS_PROFILES: Final = "params.?spec.?profiles.orValue([]).size() > 0"
MAY_BE_REFUSED: Final = (
    f"object.metadata.?labels[?{literal(LABEL_QOS_CLASS)}].orValue('') == {literal(classes.BEST_EFFORT)}\n"
    "|| (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,\n"
    f"  c.?resources.?requests.orValue({{}}).exists(n, n in {literal(classes.BATCH_RESOURCES)}))"
)
CONDITIONS: Final = {"no-mirror": IS_NO_MIRROR}

_PATCH: Final = "JSONPatch{op: 'add', path: "


def profile_variables() -> dict[str, str]:
    """Return the variables of the mutating policy: the profiles that match, what they set, and the containers."""
    priority = "variables.priority"
    ranges = " || ".join(f"({priority} >= {low} && {priority} <= {high})" for low, high, _ in PRIORITY_RANGES)
    return {
        "labels": "object.metadata.?labels.orValue({})",
        "annotations": "object.metadata.?annotations.orValue({})",
        "namespaceLabels": "namespaceObject.metadata.?labels.orValue({})",
        "matched": "params.spec.profiles.filter(p,\n"
        f"  p.?namespaceRequirements.orValue([]).all(r,\n{_meets('variables.namespaceLabels')})\n"
        f"  && p.?podRequirements.orValue([]).all(r,\n{_meets('variables.labels')}))",
        "newLabels": _values("label"),
        "newAnnotations": _values("annotation"),
        "schedulers": "variables.matched.filter(p, p.?schedulerName.orValue('') != '')",
        "classes": "variables.matched.filter(p, p.?priorityClassName.orValue('') != '')",
        "gracePeriods": "variables.matched.filter(p, has(p.terminationGracePeriodSeconds))",
        "qosClasses": _values_of(LABEL_QOS_CLASS),
        "classLabels": _values_of(LABEL_PRIORITY_CLASS),
        "classLabel": "variables.classLabels[variables.classLabels.size() - 1]",
        "priority": "variables.classes.size() > 0\n"
        "  ? int(variables.classes[variables.classes.size() - 1].?priority.orValue(0))\n"
        "  : int(object.spec.?priority.orValue(0))",
        "isBatch": "variables.matched.size() > 0\n"
        f"&& !({literal(ANNOTATION_SKIP_RESOURCES)} in variables.annotations)\n"
        f"&& !variables.newAnnotations.exists(e, e.key == {literal(ANNOTATION_SKIP_RESOURCES)})\n"
        f"&& (variables.classLabel in {literal(PRIORITY_CLASS_NAMES.keys())}\n"
        f"  ? variables.classLabel == {literal(BATCH_CLASS)}\n"
        f"  : {ranges}\n"
        f"  ? {priority} >= {BATCH_PRIORITIES[0]} && {priority} <= {BATCH_PRIORITIES[1]}\n"
        f"  : variables.qosClasses[variables.qosClasses.size() - 1] == {literal(classes.BEST_EFFORT)})",
        "containers": f"!variables.isBatch ? [] : {_containers()}",
    }


def _meets(labels: str) -> str:
    """Return the condition that labels meet the requirement ``r``."""
    named = f"r.key in {labels} && {labels}[r.key] in r.?values.orValue([])"
    return (
        f"    r.operator == 'Exists' ? r.key in {labels} : r.operator == 'DoesNotExist' ? !(r.key in {labels})\n"
        f"    : r.operator == 'In' ? {named} : !({named})"
    )


def _values(kind: str) -> str:
    """Return the labels or annotations that profiles set, in their order: entries, then copies."""
    return (
        f"variables.matched.map(p, p.?{kind}s.orValue([]).map(e, {{'key': string(e.key), 'value': string(e.value)}})\n"
        f"  + p.?{kind}Copies.orValue([]).filter(e, e.source in variables.{kind}s)\n"
        f"    .map(e, {{'key': string(e.target), 'value': string(variables.{kind}s[e.source])}})).flatten()"
    )


def _values_of(label: str) -> str:
    """Return the values of a label in their order: before the profiles, then those that profiles set."""
    return (
        f"[variables.labels[?{literal(label)}].orValue('')]\n"
        f"+ variables.newLabels.filter(e, e.key == {literal(label)}).map(e, e.value)"
    )


def _containers() -> str:
    """Return all containers with name, JSON pointer of their resources, requests and limits."""
    lists = []
    for field in pod_fields.CONTAINER_FIELDS:
        listed = "object.spec.containers" if field == "containers" else f"object.spec.?{field}.orValue([])"
        amounts = ", ".join(f"'{kind}': dyn(c.?resources.?{kind}.orValue({{}}))" for kind in KINDS)
        lists.append(
            f"{listed}.transformList(i, c, {{'name': dyn(c.name),\n"
            f"  'pointer': dyn('/spec/{field}/' + string(i) + '/resources/'), {amounts}}})"
        )
    return "\n+ ".join(lists)


def mutation() -> str:
    """Return the JSON patch: each operation sets a value, so that the patch of a changed pod changes nothing."""
    return "\n+ ".join(
        (
            *(_set_all(field, f"variables.new{field.capitalize()}") for field in ("labels", "annotations")),
            _set_last("schedulers", "schedulerName"),
            _set_last("gracePeriods", "terminationGracePeriodSeconds"),
            _priority_class(),
            *(_translated(plain, batch) for plain, batch in TRANSLATED_RESOURCES),
        )
    )


def _set_all(field: str, entries: str) -> str:
    return (
        f"({entries}.size() == 0 || has(object.metadata.{field}) ? []\n"
        f"  : [{_PATCH}'/metadata/{field}', value: {{}}}}])\n"
        f"+ {entries}.map(e, {_PATCH}'/metadata/{field}/' + jsonpatch.escapeKey(e.key), value: e.value}})"
    )


def _set_last(profiles: str, field: str) -> str:
    array = f"variables.{profiles}"
    return f"({array}.size() == 0 ? []\n  : [{_PATCH}'/spec/{field}', value: {array}[{array}.size() - 1].{field}}}])"


def _priority_class() -> str:
    """Return the operations on the class: the number and the policy are removed, since admission computes both."""
    name = "variables.classes[variables.classes.size() - 1].priorityClassName"
    removals = "\n".join(
        f"      + (has(object.spec.{field}) ? [JSONPatch{{op: 'remove', path: '/spec/{field}'}}] : [])"
        for field in ("priority", "preemptionPolicy")
    )
    return (
        f"(variables.classes.size() == 0 || object.spec.?priorityClassName.orValue('') == {name} ? []\n"
        f"  : [{_PATCH}'/spec/priorityClassName', value: {name}}}]\n{removals})"
    )


def _translated(plain: str, batch: str) -> str:
    amount = f"string(c[f][{literal(plain)}])"
    if plain == "cpu":  # milli-CPUs, rounded up; the quantity has no other way to a whole number than a float
        near = f"int(quantity({amount}).asApproximateFloat() * 1000.0)"
        value = f"string({near} + (quantity(string({near}) + 'm').compareTo(quantity({amount})) < 0 ? 1 : 0))"
    else:
        value = amount
    return (
        f"variables.containers.map(c, {literal(KINDS)}.filter(f, {literal(plain)} in c[f]).map(f,\n"
        f"  ({literal(batch)} in c[f] ? [] : [{_PATCH}string(c.pointer)\n"
        f"     + f + '/' + jsonpatch.escapeKey({literal(batch)}), value: {value}}}])\n"
        f"  + [JSONPatch{{op: 'remove', path: string(c.pointer) + f + '/{plain}'}}]).flatten()).flatten()"
    )


def guard_variables() -> dict[str, str]:
    """Return the variables of the validating policy, up to ``refusals``: all refusals, each after its container."""
    guarded = (
        f"object.metadata.?labels[?{literal(LABEL_QOS_CLASS)}].orValue('') == {literal(classes.BEST_EFFORT)}\n"
        f"&& !({literal(ANNOTATION_SKIP_RESOURCES)} in object.metadata.?annotations.orValue({{}}))"
    )
    is_best_effort = (
        f"object.metadata.?labels[?{literal(LABEL_QOS_CLASS)}].orValue('') == {literal(classes.BEST_EFFORT)}"
    )
    subject = "'container ' + string(c.name) + ': '"
    return {
        "containers": _containers(),
        "isGuarded": guarded,
        "plain": f"!variables.isGuarded ? [] : variables.containers.filter(c,\n  {_requests(guard.PLAIN)})",
        "podLevel": "!variables.isGuarded ? [] : ['requests', 'limits'].filter(f,\n"
        "  object.spec.?resources[?f].orValue({}).size() > 0)",
        "fractions": f"variables.containers.map(c, {literal(guard.UNITS.keys())}\n"
        "  .filter(n, ['limits', 'requests'].exists(f, n in c[f] && !quantity(string(c[f][n])).isInteger()))\n"
        f"  .map(n, {subject} + n + ' ' + {literal(guard.UNITS)}[n])).flatten()",
        "foreign": f"{is_best_effort} ? [] : variables.containers.map(c, {literal(classes.BATCH_RESOURCES)}\n"
        "  .filter(n, n in c.limits || n in c.requests)\n"
        f"  .map(n, {subject} + n + {literal(': ' + classes.BATCH_TEXT)})).flatten()",
        "refusals": f"variables.plain.map(c, {subject} + {literal(guard.PLAIN_TEXT)})\n"
        f"+ (variables.podLevel.size() > 0 ? [{literal('spec.resources: ' + guard.POD_LEVEL_TEXT)}] : [])\n"
        "+ variables.fractions + variables.foreign",
    }


def _requests(names: tuple[str, ...]) -> str:
    return " || ".join(f"{literal(name)} in c.{kind}" for name in names for kind in KINDS)


def limit_range_message() -> str:
    """Return the message about a LimitRange that gives CPU or memory to the containers of a batch pod."""
    return (
        "'LimitRange ' + params.metadata.name + ' of namespace ' + request.namespace + ' gives cpu or memory to '\n"
        "+ 'containers without them, which a pod of QoS class BE must not request; '\n"
        "+ 'create batch pods in a namespace without such defaults'"
    )


def limit_range_validation() -> str:
    """Return the condition that a LimitRange has no part in a refusal."""
    defaults = ("default", "defaultRequest")
    gives = " || ".join(f"{literal(name)} in l.?{field}.orValue({{}})" for field in defaults for name in guard.PLAIN)
    return f"variables.plain.size() == 0\n|| !params.spec.limits.exists(l, l.type == 'Container' && ({gives}))"
