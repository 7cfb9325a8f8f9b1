"""CEL expressions of the admission policies that translate requests, made from constants of `dra.engine.translation`.

The variables repeat `dra.engine.translation.translated_pods.translate` step by step. CEL of Kubernetes has no JSON
parser, no local names and no merging of maps; so the annotations are read by the regular expressions that the engine
has as well, and each step is a list of maps that hold the step before.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.koordinator import resource_spec, well_known
from dra.api.koordinator.resource_spec import FIELD_PATTERN, NUMA_TOPOLOGY_SPEC, OBJECT_PATTERN, RESOURCE_SPEC
from dra.api.parameters.cpu_policies import CpuExclusivePolicy
from dra.engine.translation import (
    aligned_requests,
    classes,
    cpu_requests,
    device_rules,
    gpu_requests,
    pod_fields,
    template_names,
)
from dra.engine.translation.aligned_requests import STRICT_POLICIES
from dra.engine.translation.cpu_requests import ALIGNED_CLAIM_NAME, CLAIM_NAME, CLAIM_NAMES, annotation_path
from dra.engine.translation.device_requests import MEBI
from dra.engine.translation.gpu_requests import (
    CORE,
    GPU,
    GPU_NAMES,
    MEMORY,
    PERCENTS,
    PREFIXES,
    RATIO,
    SHARED,
    SUFFIXES,
    UNSUPPORTED_NAMES,
    VENDOR_NAMES,
)
from dra.engine.translation.requests import CPU_REQUEST, MAX_ALIGNED_CONTAINERS, MAX_CPUS, WHOLE_CARD
from dra.model.koordinator_classes import (
    LABEL_PRIORITY_CLASS,
    LABEL_QOS_CLASS,
    PRIORITY_CLASS_NAMES,
    PRIORITY_RANGES,
    NumaTopologyPolicy,
)

MAX_REFUSALS: Final = 8
"""Maximum refusals in a message: the API server drops messages of more than 5 KiB."""

IS_NO_MIRROR: Final = f"!('{pod_fields.MIRROR}' in object.metadata.?annotations.orValue({{}}))"


def literal(value: str | int | Iterable[str] | Mapping[str, object]) -> str:
    """Return a constant as CEL writes it."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"  # type: ignore[arg-type]
    return "[" + ", ".join(literal(item) for item in value) + "]"


def filled(text: str, **expressions: str) -> str:
    """Return the expression of a text with placeholders such as ``{qos}``."""
    parts = [literal(text)]
    for name, expression in expressions.items():
        parts = [part.replace(f"{{{name}}}", f"' + {expression} + '") for part in parts]
    return parts[0]


def class_name(pod: str) -> str:
    """Return the expression for the name of a pod's priority class."""
    by_number = {priority_class: name for name, priority_class in PRIORITY_CLASS_NAMES.items()}
    label = f"{pod}.metadata.?labels[?{literal(LABEL_PRIORITY_CLASS)}].orValue('')"
    priority = f"{pod}.spec.?priority.orValue(0)"
    ranges = "".join(
        f"  : {priority} >= {low} && {priority} <= {high} ? {literal(by_number[priority_class])}\n"
        for low, high, priority_class in PRIORITY_RANGES
    )
    return f"{label} in {literal(PRIORITY_CLASS_NAMES.keys())} ? {label}\n{ranges}  : {literal(classes.NO_CLASS)}"


def refusal_variables() -> dict[str, str]:
    """Return the variables up to ``refusals``, the list of all refusals of ``object``, each after its path."""
    return {
        "annotations": "object.metadata.?annotations.orValue({})",
        "qos": f"object.metadata.?labels[?{literal(LABEL_QOS_CLASS)}].orValue('')",
        "priorityClass": class_name("object"),
        "containers": _containers(),
        "classRefusals": _class_refusals(),
        **_annotation_variables("resourceSpec", RESOURCE_SPEC),
        **_annotation_variables("numaTopologySpec", NUMA_TOPOLOGY_SPEC),
        **_cpu_variables(),
        **_gpu_variables(),
        **_alignment_variables(),
        **_device_rule_variables(),
        # Variables are evaluated when they are read: most pods read few of them.
        "refusals": "variables.classRefusals\n"
        f"+ ({literal(RESOURCE_SPEC.name)} in variables.annotations ? variables.resourceSpecRefusals : [])\n"
        f"+ ({literal(NUMA_TOPOLOGY_SPEC.name)} in variables.annotations ? variables.numaTopologySpecRefusals : [])\n"
        "+ (variables.isBound ? variables.cpuRefusals + variables.noCPURefusals : [])\n"
        "+ (variables.gpuRequests.size() > 0 ? variables.gpuRefusals + variables.alignmentRefusals : [])\n"
        f"+ ({literal(NUMA_TOPOLOGY_SPEC.name)} in variables.annotations ? variables.vendorRefusals : [])\n"
        "+ (variables.deviceRules.size() == 0 && variables.deviceScope == '' ? [] : variables.deviceRuleRefusals)",
    }


def message() -> str:
    """Return the expression for the message of a refused pod."""
    refusals = "variables.refusals"
    return f"({refusals}.size() > {MAX_REFUSALS} ? {refusals}.slice(0, {MAX_REFUSALS}) : {refusals}).join('; ')"


def _containers() -> str:
    """Return all containers with path, JSON pointer, and the fields that the other expressions read."""
    lists = []
    for field in pod_fields.CONTAINER_FIELDS:
        listed = "object.spec.containers" if field == "containers" else f"object.spec.?{field}.orValue([])"
        is_main = "true" if field == "containers" else "false"
        sidecar = "false" if field == "containers" else "c.?restartPolicy.orValue('') == 'Always'"
        lists.append(
            f"{listed}.transformList(i, c, {{\n"
            f"  'path': dyn('spec.{field}[' + string(i) + '].resources'),\n"
            f"  'pointer': dyn('/spec/{field}/' + string(i) + '/resources'),\n"
            f"  'claim': dyn({literal(gpu_requests.claim_name(field))} + string(i)),\n"
            "  'name': dyn(c.name),\n"
            f"  'isMain': dyn({is_main}),\n"
            f"  'isSidecar': dyn({sidecar}),\n"
            "  'hasClaims': dyn(c.?resources.?claims.hasValue()),\n"
            "  'limits': dyn(c.?resources.?limits.orValue({})),\n"
            "  'requests': dyn(c.?resources.?requests.orValue({}))\n"
            "})"
        )
    return "\n+ ".join(lists)


def _class_refusals() -> str:
    allowed = literal(classes.ALLOWED_PRIORITY_CLASSES)
    text = filled(
        f"{classes.QOS_PATH}: {classes.COMBINATION_TEXT}",
        qos="variables.qos",
        allowed=f"{allowed}[variables.qos].join(', ')",
        **{"class": "variables.priorityClass"},
    )
    return (
        f"(variables.qos in {allowed} && !(variables.priorityClass in {allowed}[variables.qos])\n"
        f"  ? [{text}] : [])\n"
        f"+ (variables.qos == {literal(classes.BEST_EFFORT)} ? [] : variables.containers.map(c,\n"
        f"  {literal(classes.BATCH_RESOURCES)}.filter(n, n in c.requests || n in c.limits)\n"
        f"  .map(n, c.path + '.requests[' + n + ']: ' + {literal(classes.BATCH_TEXT)})).flatten())"
    )


def _annotation_variables(name: str, kind: resource_spec.WordAnnotation) -> dict[str, str]:
    path, words = annotation_path(kind.name), literal(kind.words)
    texts = literal({field: kind.word_text(field) for field in kind.words})
    return {
        name: f"variables.annotations[?{literal(kind.name)}].orValue('{{}}')",
        f"{name}IsObject": f"variables.{name}.size() <= {resource_spec.MAX_LENGTH}\n"
        f"&& variables.{name}.matches(r'^{OBJECT_PATTERN}$')",
        f"{name}Fields": f"!({literal(kind.name)} in variables.annotations) || !variables.{name}IsObject ? []\n"
        f"  : variables.{name}.findAll(r'{FIELD_PATTERN}')\n"
        "  .map(f, f.split('\"')).map(p, [p[1], p.size() > 3 ? p[3] : ''])",
        f"{name}Refusals": f"!variables.{name}IsObject\n"
        f"  || variables.{name}Fields.exists(f, variables.{name}Fields.filter(g, g[0] == f[0]).size() > 1)\n"
        f"  ? [{literal(f'{path}: {kind.malformed_text}')}]\n"
        f"  : variables.{name}Fields.filter(f, !(f[0] in {words} && (f[1] == '' || f[1] in {words}[f[0]])))\n"
        f"    .map(f, {literal(f'{path}.')} + f[0] + ': '\n"
        f"      + (f[0] in {words} ? {texts}[f[0]] : {literal(kind.unknown_text)}))",
    }


def _cpu_variables() -> dict[str, str]:
    qos = "variables.qos"
    requested = _millis("c.requests[?'cpu'].orValue(c.limits[?'cpu'].orValue('0'))")
    limited = _millis("c.limits[?'cpu'].orValue('0')")
    pod_requested, pod_limited = (_millis(f"variables.{side}['cpu']") for side in ("podRequests", "podLimits"))
    whole, limit = filled(cpu_requests.WHOLE_TEXT, qos=qos), filled(cpu_requests.LIMIT_TEXT, qos=qos)
    of_pod = filled(f"{cpu_requests.POD_PATH}.limits.cpu: {cpu_requests.LIMIT_TEXT}", qos=qos)
    declared = filled(f"{cpu_requests.NO_CPUS_PATH}: {cpu_requests.DECLARED_TEXT}", qos=qos)
    return {
        "isBound": f"variables.qos in {literal(classes.BOUND_CLASSES)}\n"
        f"&& variables.annotations[?{literal(well_known.ANNOTATION_CPUS)}].orValue('')\n"
        f"  != {literal(well_known.OWN_CPUS)}",
        "podRequests": "object.spec.?resources.?requests.orValue({})",
        "podLimits": "object.spec.?resources.?limits.orValue({})",
        # In thousandths of a CPU. The API server fills in what is missing, from 1.37 on after policies that mutate.
        "cpuMillis": "variables.containers.map(c, {'isMain': dyn(c.isMain), 'isSidecar': dyn(c.isSidecar),\n"
        "  'asks': dyn('cpu' in c.requests || 'cpu' in c.limits), 'isLimited': dyn('cpu' in c.limits),\n"
        f"  'request': dyn({requested}),\n"
        f"  'limit': dyn({limited})}})",
        "podCPURequest": f"'cpu' in variables.podRequests ? {pod_requested}\n"
        f": variables.cpuMillis.exists(c, c.asks) ? {_peak('variables.cpuMillis', 'request')}\n"
        f": 'cpu' in variables.podLimits ? {pod_limited} : 0",
        "podCPULimit": f"'cpu' in variables.podLimits ? {pod_limited}\n"
        ": variables.podRequests.size() + variables.podLimits.size() > 0 && variables.podCPURequest > 0\n"
        "  && variables.cpuMillis.all(c, c.isLimited)\n"
        f"? [variables.podCPURequest, {_peak('variables.cpuMillis', 'limit')}].max() : -1",
        "cpuParts": "variables.podCPULimit >= 0\n"
        f"? [{{'path': dyn({literal(cpu_requests.POD_PATH)}), 'isMain': dyn(true), 'isSidecar': dyn(false),\n"
        f"  'requests': dyn({{'cpu': {_from_millis('variables.podCPURequest')}}}),\n"
        f"  'limits': dyn({{'cpu': {_from_millis('variables.podCPULimit')}}})}}]\n"
        ": variables.containers",
        "cpuRequests": "!variables.isBound ? [] : variables.cpuParts.map(c, {\n"
        "  'path': dyn(c.path), 'isMain': dyn(c.isMain), 'isSidecar': dyn(c.isSidecar),\n"
        "  'request': dyn(quantity(string(c.requests[?'cpu'].orValue(c.limits[?'cpu'].orValue('0'))))),\n"
        "  'limit': dyn(quantity(string(c.limits[?'cpu'].orValue('0'))))\n"
        "})",
        "cpuOverhead": "quantity(string(object.spec.?overhead[?'cpu'].orValue('0')))",
        "cpuRefusals": "variables.cpuRequests.map(c,\n"
        f"  !c.request.isInteger() || c.request.asInteger() < 0 || c.request.asInteger() > {MAX_CPUS}\n"
        f"  ? [c.path + '.requests.cpu: ' + {whole}]\n"
        f"  : c.limit.compareTo(c.request) != 0 ? [c.path + '.limits.cpu: ' + {limit}]\n"
        "  : []).flatten()\n"
        "+ (!variables.isBound || (variables.cpuOverhead.isInteger() && variables.cpuOverhead.asInteger() >= 0\n"
        f"  && variables.cpuOverhead.asInteger() <= {MAX_CPUS}) ? []\n"
        f"  : [{literal(f'{cpu_requests.OVERHEAD_PATH}: ')} + {whole}])",
        "cpuAmounts": "variables.cpuRefusals.size() > 0 ? [] : variables.cpuRequests.map(c,\n"
        "  {'cpus': dyn(c.request.asInteger()), 'isMain': dyn(c.isMain), 'isSidecar': dyn(c.isSidecar)})",
        "cpus": _peak("variables.cpuAmounts", "cpus"),
        "noCPURefusals": "!variables.isBound || variables.cpuRefusals.size() > 0\n"
        f"? [] : (variables.cpus >= 1 && variables.cpus <= {MAX_CPUS} - variables.cpuOverhead.asInteger() ? []\n"
        f"  : [{declared}])\n"
        "+ (!('cpu' in variables.podRequests) || variables.podCPULimit >= 0\n"
        "  || quantity(string(variables.podRequests['cpu'])).compareTo(quantity(string(variables.cpus))) == 0\n"
        f"  ? [] : [{of_pod}])",
    }


def _millis(quantity: str) -> str:
    """Return the expression for a number of CPUs in thousandths, of which a pod has whole ones."""
    return f"int(quantity(string({quantity})).asApproximateFloat() * 1000.0 + 0.5)"


def _from_millis(millis: str) -> str:
    return f"({millis} % 1000 == 0 ? string({millis} / 1000) : string({millis}) + 'm')"


def _peak(containers: str, field: str) -> str:
    """Return the expression for the most that containers have at one time, as kube-scheduler counts it."""
    return (
        f"([{containers}.filter(c, c.isSidecar || c.isMain).map(c, int(c.{field})).sum()]\n"
        f"+ {containers}.transformList(i, c, !c.isMain && !c.isSidecar, int(c.{field})\n"
        f"  + {containers}.transformList(j, d, j < i && d.isSidecar, int(d.{field})).sum())).max()"
    )


def _gpu_variables() -> dict[str, str]:
    by_set = literal(",".join(allowed) for allowed in gpu_requests.ALLOWED_SETS)
    suffixes = literal(SUFFIXES)
    deprecated = literal(gpu_requests.DEPRECATED_PREFIX)
    amount = "quantity(string(a.c.limits[n]))"
    unequal = (
        "a.names.filter(n, !(n in a.c.limits) || (n in a.c.requests\n"
        f"      && quantity(string(a.c.requests[n])).compareTo({amount}) != 0))"
    )
    twice = f"{suffixes}.filter(s, {literal(gpu_requests.PREFIX)} + s in a.names && {deprecated} + s in a.names)"
    shared_name = f"n.endsWith({literal('/' + SHARED)})"
    asked = f"{suffixes}.filter(s, {literal(PREFIXES)}.exists(p, p + s in a.names)).join(',')"
    vendors = f"{literal(VENDOR_NAMES)}.exists(n, {_is_asked('a.c')})"
    not_whole = (
        f"{suffixes}.map(s, {literal(PREFIXES)}.map(p, p + s).filter(n, n in a.names)).flatten()\n"
        f"      .filter(n, !{amount}.isInteger() || {amount}.asInteger() < 1\n"
        f"        || {amount}.asInteger() > {literal(gpu_requests.MAX_AMOUNTS)}[n.split('/')[1]])"
    )
    percents = literal(PERCENTS)
    bad_unit = (
        f"{percents}.filter(s, s in a.amounts && a.amounts[s] > {WHOLE_CARD} && a.amounts[s] % {WHOLE_CARD} != 0)"
    )
    bad_cards = (
        f"{percents}.filter(s, s in a.amounts\n"
        f"      && (a.amounts[s] % a.cards != 0 || a.amounts[s] > {WHOLE_CARD} * a.cards))"
    )
    return {
        "gpuRequests": "variables.containers\n"
        f"  .filter(c, {_requests_one((*GPU_NAMES, *UNSUPPORTED_NAMES))})\n"
        "  .map(c, {'c': dyn(c),\n"
        f"  'unsupported': dyn({literal(UNSUPPORTED_NAMES)}.filter(n, {_is_asked('c')})),\n"
        f"  'names': dyn({literal(GPU_NAMES)}.filter(n, {_is_asked('c')} || ({shared_name} && ({_is_given('c')}))))\n"
        "}).filter(a, a.unsupported.size() > 0 || a.names.size() > 0)",
        "gpuSets": "variables.gpuRequests.map(a, {'c': dyn(a.c), 'names': dyn(a.names), 'refusal': dyn(\n"
        "  a.unsupported.size() > 0\n"
        "  ? a.c.path + (a.unsupported[0] in a.c.limits ? '.limits[' : '.requests[') + a.unsupported[0]\n"
        f"    + {literal(']: ' + gpu_requests.UNSUPPORTED_TEXT)}\n"
        f"  : {unequal}.size() > 0\n"
        f"  ? a.c.path + '.requests[' + {unequal}[0]\n"
        f"    + {literal(']: ' + gpu_requests.UNEQUAL_TEXT)}\n"
        f"  : {twice}.size() > 0\n"
        f"  ? a.c.path + {literal('.limits[' + gpu_requests.DEPRECATED_PREFIX)} + {twice}[0]\n"
        f"    + {literal(']: ' + gpu_requests.TWICE_TEXT)}\n"
        f"  : !({asked} in {by_set}) || {vendors}\n"
        f"  ? a.c.path + {literal('.limits: ' + gpu_requests.SET_TEXT)}\n"
        f"  : {not_whole}.size() > 0\n"
        f"  ? {not_whole}.map(n, a.c.path + '.limits[' + n + ']: '\n"
        f"      + {literal(gpu_requests.AMOUNT_TEXTS)}[n.split('/')[1]])[0]\n"
        "  : '')})",
        "gpuAmounts": "variables.gpuSets.filter(a, a.refusal == '').map(a, {'c': dyn(a.c), 'names': dyn(a.names),\n"
        "  'suffixes': dyn(a.names.transformMapEntry(i, n, {n.split('/')[1]: n})),\n"
        f"  'amounts': dyn(a.names.transformMapEntry(i, n, {{n.split('/')[1]: {amount}.asInteger()}}))}})",
        "gpuCards": "variables.gpuAmounts.map(a, {'c': dyn(a.c), 'names': dyn(a.names), 'suffixes': dyn(a.suffixes),\n"
        "  'amounts': dyn(a.amounts),\n"
        f"  'cards': dyn({literal(SHARED)} in a.amounts ? a.amounts[{literal(SHARED)}]\n"
        + "".join(
            f"    : {literal(s)} in a.amounts && a.amounts[{literal(s)}] > {WHOLE_CARD} "
            f"? a.amounts[{literal(s)}] / {WHOLE_CARD}\n"
            for s in (GPU, RATIO, CORE)
        )
        + "    : 1)})",
        # What a card has at least: for an init container, the cards of another container may do.
        "gpuShares": "variables.gpuCards.map(a, {'c': dyn(a.c), 'names': dyn(a.names), 'amounts': dyn(a.amounts),\n"
        "  'cards': dyn(a.cards),\n"
        + "".join(
            f"  '{field}': dyn(({literal(s)} in a.amounts ? a.amounts[{literal(s)}]"
            f" : {literal(GPU)} in a.amounts ? a.amounts[{literal(GPU)}] : 0) / a.cards),\n"
            for field, s in (("core", CORE), ("ratio", RATIO))
        )
        + f"  'memory': dyn({literal(MEMORY)} in a.amounts\n"
        f"    ? (a.amounts[{literal(MEMORY)}] + a.cards * {MEBI} - 1) / (a.cards * {MEBI}) : 0)}})",
        "gpuLenders": "variables.gpuShares.transformList(i, a, a.c.isMain || a.c.isSidecar\n"
        "  || variables.gpuShares.transformList(j, b, j != i && !b.c.isSidecar\n"
        f"    && {_covers('b', 'a')}\n"
        f"    && (b.c.isMain || j < i || !({_covers('a', 'b')})), true).size() == 0, a)",
        "gpuUnits": "variables.gpuCards.map(a, {'path': dyn(a.c.path), 'refusal': dyn(\n"
        f"  !({literal(SHARED)} in a.amounts) && {bad_unit}.size() > 0\n"
        f"  ? a.c.path + '.limits[' + a.suffixes[{bad_unit}[0]]\n"
        f"    + {literal(']: ' + gpu_requests.UNIT_TEXT)}\n"
        f"  : {bad_cards}.size() > 0\n"
        f"  ? a.c.path + '.limits[' + a.suffixes[{bad_cards}[0]]\n"
        f"    + {literal(']: ' + gpu_requests.CARDS_TEXT)}\n"
        "  : object.spec.?resourceClaims.orValue([]).exists(r, r.name == a.c.claim)\n"
        f"  ? 'spec.resourceClaims[' + a.c.claim + {literal(']: ' + gpu_requests.NAME_TEXT)}\n"
        f"  : object.spec.?resourceClaims.orValue([]).exists(r, r.name == {literal(ALIGNED_CLAIM_NAME)})\n"
        f"  ? {literal(f'spec.resourceClaims[{ALIGNED_CLAIM_NAME}]: {gpu_requests.NAME_TEXT}')}\n"
        "  : '')})",
        "gpuRefusals": "variables.gpuSets.map(a, a.refusal != '' ? [string(a.refusal)]\n"
        "  : variables.gpuUnits.filter(u, u.path == a.c.path && u.refusal != '').map(u, string(u.refusal))).flatten()",
    }


def _alignment_variables() -> dict[str, str]:
    text = literal(f"{aligned_requests.POLICY_PATH}: {aligned_requests.TOO_MANY_TEXT}")
    none = NumaTopologyPolicy.NONE.value
    return {
        "numaPolicy": f"variables.numaTopologySpecRefusals.size() > 0 ? {literal(none)}\n"
        f": {_word(resource_spec.NUMA_TOPOLOGY_POLICY, of='numaTopologySpec', otherwise=none)}",
        "alignmentRefusals": f"variables.numaPolicy == {literal(none)}\n"
        f"|| variables.gpuRequests.filter(a, a.names.size() > 0).size() <= {MAX_ALIGNED_CONTAINERS} ? [] : [{text}]",
        "vendorRefusals": f"!(variables.numaPolicy in {literal(policy.value for policy in STRICT_POLICIES)}) ? []\n"
        f": variables.containers.map(c, {literal(VENDOR_NAMES)}.filter(n, {_is_asked('c')})\n"
        f"  .map(n, c.path + '.limits[' + n + {literal(']: ' + aligned_requests.VENDOR_TEXT)}))\n"
        "  .map(l, l.size() > 1 ? l.slice(0, 1) : l).flatten()",
    }


def _device_rule_variables() -> dict[str, str]:
    annotations = literal(device_rules.UNTRANSLATED_ANNOTATIONS)
    text = literal(f"]: {device_rules.RULE_TEXT}")
    hint = literal(f"{annotation_path(device_rules.HINT)}: {device_rules.HINT_TEXT}")
    scope = literal(f"{device_rules.SCOPE_PATH}: {device_rules.SCOPE_TEXT}")
    asked = "\n".join(
        (
            f"variables.containers.exists(c, {literal(device_rules.ASKED_NAMES)}.exists(n,",
            f"  {_is_asked('c')} || (n.endsWith({literal('/' + SHARED)}) && ({_is_given('c')}))))",
        )
    )
    provider = literal(f"metadata.labels[{well_known.LABEL_GPU_ISOLATION_PROVIDER}]: {device_rules.PROVIDER_TEXT}")
    label = f"object.metadata.?labels[?{literal(well_known.LABEL_GPU_ISOLATION_PROVIDER)}].orValue('')"
    return {
        "deviceHint": f"variables.annotations[?{literal(device_rules.HINT)}].orValue('')",
        "deviceHintIsKnown": f"variables.deviceHint == ''\n"
        f"|| (variables.deviceHint.size() <= {resource_spec.MAX_LENGTH}\n"
        f"  && variables.deviceHint.matches(r'^{device_rules.HINT_PATTERN}$'))",
        "deviceScope": "!variables.deviceHintIsKnown ? ''\n"
        f": {literal(device_rules.SCOPES)}.filter(s, variables.deviceHint.contains('\"' + s + '\"')).join('')",
        # A constraint holds within one claim, and so for the cards of one container.
        "deviceScopeHolds": f"!variables.containers.exists(c, {literal(VENDOR_NAMES)}.exists(n, {_is_asked('c')}))\n"
        "&& (variables.gpuLenders.map(a, int(a.cards)).sum() <= 1\n"
        f"  || (variables.deviceScope != {literal(device_rules.ONE_DEVICE)} && variables.gpuLenders.size() == 1\n"
        f"    && variables.gpuLenders[0].ratio == {WHOLE_CARD}\n"
        f"    && variables.numaPolicy != {literal(NumaTopologyPolicy.BEST_EFFORT.value)}))",
        "deviceRules": f"(variables.deviceHintIsKnown ? [] : [{hint}])\n"
        f"+ {annotations}.filter(a, variables.annotations[?a].orValue('') != '')\n"
        f"  .map(a, 'metadata.annotations[' + a + {text})\n"
        f"+ ({label} != '' ? [{provider}] : [])",
        "deviceRuleRefusals": f"!{asked} ? []\n"
        ": (variables.deviceScope == '' || variables.gpuRefusals.size() > 0 || variables.deviceScopeHolds ? []\n"
        f"  : [{scope}])\n"
        "+ variables.deviceRules",
    }


def _is_given(container: str) -> str:
    """Return the condition that a container names resource ``n``, be the amount 0."""
    return f"n in {container}.limits || n in {container}.requests"


def _is_asked(container: str) -> str:
    """Return the condition that a container asks for resource ``n``: 0 asks for nothing."""
    parts = (
        f"n in {container}.{kind} && quantity(string({container}.{kind}[n])).compareTo(quantity('0')) != 0"
        for kind in ("limits", "requests")
    )
    return f"({' || '.join(parts)})"


def _covers(one: str, other: str) -> str:
    """Return the condition that a share has as many cards as another one, each with as much (`gpuShares`)."""
    return (
        f"{one}.cards >= {other}.cards && {one}.core >= {other}.core\n"
        f"    && ({other}.ratio > 0 ? {one}.ratio >= {other}.ratio : {one}.memory >= {other}.memory)"
    )


def entry_variables() -> dict[str, str]:
    """Return the variables after ``refusals`` from which the mutation is made."""
    required = (
        f"variables.resourceSpecFields.filter(f, f[0] == {literal(resource_spec.REQUIRED_BIND_POLICY)} && f[1] != '')"
    )
    default = template_names.POLICY_WORDS[None]
    policies = {policy.value: word for policy, word in template_names.POLICY_WORDS.items() if policy is not None}
    exclusivities = {policy.value: word for policy, word in template_names.EXCLUSIVITY_WORDS.items()}
    letters = "".join(
        f"\n  + ({literal(suffix)} in a.amounts ? '-{letter}' + string(a.amounts[{literal(suffix)}])"
        f" : {literal(GPU)} in a.amounts ? '-{letter}' + string(a.amounts[{literal(GPU)}]) : '')"
        for letter, suffix in (("c", CORE), ("r", RATIO))
    )
    memory = f"a.amounts[{literal(MEMORY)}]"
    scopes = {scope.value: word for scope, word in template_names.SCOPE_WORDS.items() if scope is not None}
    numa_words = {policy.value: word for policy, word in template_names.NUMA_WORDS.items()}
    return {
        "required": f"{required}.map(f, f[1]).join('')",
        "preferred": _word(resource_spec.PREFERRED_BIND_POLICY, otherwise=resource_spec.DEFAULT),
        "exclusive": _word(resource_spec.EXCLUSIVE_POLICY, otherwise=CpuExclusivePolicy.NONE.value),
        "policy": "variables.required != '' ? variables.required : variables.preferred",
        "cpuTemplates": "!variables.isBound || variables.refusals.size() > 0\n"
        f"|| variables.policy == {literal(resource_spec.CONSTRAINED_BURST)}\n"
        f"|| object.spec.?resourceClaims.orValue([]).exists(r, r.name in {literal(CLAIM_NAMES)}) ? []\n"
        f": [{literal(template_names.CPU_PREFIX)} + string(variables.cpus + variables.cpuOverhead.asInteger()) + '-'\n"
        f"  + (variables.policy == {literal(resource_spec.DEFAULT)} ? {literal(default)}\n"
        f"    : {literal(policies)}[variables.policy])\n"
        f"  + (variables.required != '' ? {literal(template_names.REQUIRED)} : '')\n"
        f"  + {literal(exclusivities)}[variables.exclusive] + '-' + variables.qos.lowerAscii()]",
        "gpuTemplates": "variables.gpuRequests.size() == 0 || variables.refusals.size() > 0 ? []\n"
        "  : variables.gpuShares.map(a, {'c': dyn(a.c),\n"
        "  'names': dyn(a.names),\n"
        "  'claim': dyn(variables.gpuLenders.exists(b, b.c.claim == a.c.claim) ? a.c.claim\n"
        f"    : variables.gpuLenders.filter(b, !b.c.isSidecar && {_covers('b', 'a')})[0].c.claim),\n"
        f"  'template': dyn({literal(template_names.GPU_PREFIX)}{letters}\n"
        f"  + ({literal(MEMORY)} in a.amounts\n"
        f"    ? '-m' + string(({memory} + a.cards * {MEBI} - 1) / (a.cards * {MEBI}) * a.cards) : '')\n"
        "  + '-s' + string(a.cards)\n"
        f"  + (a.cards > 1 && variables.deviceScope != '' ? {literal(scopes)}[variables.deviceScope] : ''))}})",
        "isAligned": f"variables.numaPolicy == {literal(NumaTopologyPolicy.BEST_EFFORT.value)}\n"
        "? variables.cpuTemplates.size() > 0 && variables.gpuTemplates.size() > 0\n"
        f": variables.numaPolicy != {literal(NumaTopologyPolicy.NONE.value)}\n"
        "  && variables.cpuTemplates.size() + variables.gpuTemplates.size() > 0",
        "claims": "variables.isAligned\n"
        f"? [{{'name': {literal(ALIGNED_CLAIM_NAME)}, 'template': ([{literal(template_names.ALIGNED_PREFIX)}\n"
        f"  + {literal(numa_words)}[variables.numaPolicy]]\n"
        f"  + variables.cpuTemplates.map(t, t.substring({len(template_names.PREFIX)}))\n"
        f"  + variables.gpuTemplates.filter(a, a.claim == a.c.claim)\n"
        f"    .map(a, string(a.claim).substring({len(template_names.PREFIX)})\n"
        f"    + string(a.template).substring({len(template_names.GPU_PREFIX)}))\n"
        f"  ).join({literal(template_names.SEPARATOR)})}}]\n"
        f": variables.cpuTemplates.map(t, {{'name': {literal(CLAIM_NAME)}, 'template': t}})\n"
        "  + variables.gpuTemplates.filter(a, a.claim == a.c.claim)\n"
        "    .map(a, {'name': string(a.claim), 'template': string(a.template)})",
    }


def mutation() -> str:
    """Return the JSON patch: claims of the pod, references of containers, GPU resources into the annotation.

    A list of objects as the value of an operation panics the API server (Kubernetes 1.36), so each list is added empty
    and filled by single operations.
    """
    annotation = well_known.ANNOTATION_EXTENDED_RESOURCE_SPEC
    amounts = "a.names.map(n, '\"' + n + '\":\"' + string(a.c.limits[n]) + '\"').join(',')"
    add = "JSONPatch{op: 'add', path: "
    empty_list = f"(c.hasClaims ? [] : [{add}c.pointer + '/claims', value: []}}])"
    claim = "Object.spec.containers.resources.claims{name: "
    return (
        "(variables.claims.size() == 0 || has(object.spec.resourceClaims) ? []\n"
        f"  : [{add}'/spec/resourceClaims', value: []}}])\n"
        f"+ variables.claims.map(e, {add}'/spec/resourceClaims/-', value: Object.spec.resourceClaims{{\n"
        "    name: e.name, resourceClaimTemplateName: e.template}})\n"
        "+ variables.containers.map(c, [c].filter(c, variables.cpuTemplates.size() > 0\n"
        "    || variables.gpuTemplates.exists(a, a.c.path == c.path))\n"
        f"  .map(c, {empty_list}\n"
        f"    + (variables.isAligned ? [{add}c.pointer + '/claims/-', value: {claim}{literal(ALIGNED_CLAIM_NAME)},\n"
        "      request: variables.gpuTemplates.exists(a, a.c.path == c.path)\n"
        f"        ? string(variables.gpuTemplates.filter(a, a.c.path == c.path)[0].claim)\n"
        f"          .substring({len(template_names.PREFIX)}) : {literal(CPU_REQUEST)}}}}}]\n"
        f"    : variables.cpuTemplates.map(t, {add}c.pointer + '/claims/-',\n"
        f"      value: {claim}{literal(CLAIM_NAME)}}}}})\n"
        f"    + variables.gpuTemplates.filter(a, a.c.path == c.path).map(a, {add}c.pointer + '/claims/-',\n"
        f"      value: {claim}string(a.claim)}}}}))).flatten()).flatten()\n"
        "+ variables.gpuTemplates.map(a, ['limits', 'requests'].map(f, a.names\n"
        "    .filter(n, n in (f == 'limits' ? a.c.limits : a.c.requests))\n"
        "    .map(n, JSONPatch{op: 'remove', path: a.c.pointer + '/' + f + '/' + jsonpatch.escapeKey(n)}))\n"
        "  .flatten()).flatten()\n"
        "+ (variables.gpuTemplates.size() == 0 || has(object.metadata.annotations) ? []\n"
        f"  : [{add}'/metadata/annotations', value: {{}}}}])\n"
        "+ (variables.gpuTemplates.size() == 0 ? []\n"
        f"  : [{add}'/metadata/annotations/' + jsonpatch.escapeKey({literal(annotation)}),\n"
        "    value: '{\"containers\":{' + variables.gpuTemplates.map(a, '\"' + a.c.name + '\":{\"requests\":{'\n"
        f"      + {amounts} + '}},\"limits\":{{' + {amounts} + '}}}}').join(',') + '}}}}'}}])"
    )


def asks() -> str:
    """Return the condition on pods that the mutation may change; false for the pods that it has changed."""
    return (
        f"(object.metadata.?labels[?{literal(LABEL_QOS_CLASS)}].orValue('') in {literal(classes.BOUND_CLASSES)}\n"
        f"  && !object.spec.?resourceClaims.orValue([]).exists(r, r.name in {literal(CLAIM_NAMES)}))\n"
        f"|| {_a_container_requests(GPU_NAMES)}"
    )


def may_be_refused() -> str:
    """Return the condition on pods that may have refusals; false for the pods that ask for nothing in this form."""
    annotations = (RESOURCE_SPEC.name, NUMA_TOPOLOGY_SPEC.name, *device_rules.RULE_ANNOTATIONS)
    provider = literal(well_known.LABEL_GPU_ISOLATION_PROVIDER)
    names = (*GPU_NAMES, *UNSUPPORTED_NAMES, *classes.BATCH_RESOURCES)
    return (
        f"object.metadata.?labels[?{literal(LABEL_QOS_CLASS)}].orValue('') != ''\n"
        f"|| object.metadata.?annotations.orValue({{}}).exists(a, a in {literal(annotations)})\n"
        f"|| object.metadata.?labels[?{provider}].orValue('') != ''\n"
        f"|| {_a_container_requests(names)}"
    )


def _a_container_requests(names: Iterable[str]) -> str:
    limits, requests = (f"c.?resources.?{field}.orValue({{}})" for field in ("limits", "requests"))
    return (
        "(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,\n"
        f"  {_requests_one(names, limits=limits, requests=requests)})"
    )


def _requests_one(names: Iterable[str], *, limits: str = "c.limits", requests: str = "c.requests") -> str:
    """Return the condition that a container requests one of the resources; a container has few, and they are many."""
    listed = literal(names)
    return f"{limits}.exists(n, n in {listed}) || {requests}.exists(n, n in {listed})"


def change_variables() -> dict[str, str]:
    """Return the variables up to ``refusals``, the refusals of an update from ``oldObject`` to ``object``."""
    labels = "".join(
        f"(object.metadata.?labels[?{literal(name)}] != oldObject.metadata.?labels[?{literal(name)}]\n"
        f"  ? [{literal(f'metadata.labels[{name}]: {classes.IMMUTABLE_TEXT}')}] : [])\n+ "
        for name in classes.IMMUTABLE_LABELS
    )
    names = literal(CLAIM_NAMES)
    return {
        "priorityClass": class_name("object"),
        "oldPriorityClass": class_name("oldObject"),
        "cpuRefusals": f"!object.spec.?resourceClaims.orValue([]).exists(r, r.name in {names}) ? []\n"
        f": {_changed_cpus()}",
        "refusals": f"{labels}(variables.priorityClass != variables.oldPriorityClass\n"
        f"  ? [{literal(f'{classes.PRIORITY_CLASS_PATH}: {classes.IMMUTABLE_TEXT}')}] : [])\n"
        "+ variables.cpuRefusals",
    }


def _changed_cpus() -> str:
    """Return the refusals of requests and limits for CPUs that an update changes; the containers stay the same."""
    parts = []
    for field in pod_fields.CONTAINER_FIELDS:
        new, old = (f"{side}.spec.?{field}.orValue([])" for side in ("object", "oldObject"))
        changed = " + ".join(
            f"({_cpu('c', kind)}.compareTo({_cpu(f'{old}[i]', kind)}) == 0 ? []"
            f" : ['spec.{field}[' + string(i) + {literal(f'].resources.{kind}.cpu: {cpu_requests.RESIZE_TEXT}')}])"
            for kind in ("requests", "limits")
        )
        parts.append(f"{new}.transformList(i, c, i < {old}.size(),\n  {changed}).flatten()")
    for kind in ("requests", "limits"):
        text = literal(f"{cpu_requests.POD_PATH}.{kind}.cpu: {cpu_requests.RESIZE_TEXT}")
        parts.append(f"({_cpu('object.spec', kind)}.compareTo({_cpu('oldObject.spec', kind)}) == 0 ? [] : [{text}])")
    return "\n+ ".join(parts)


def _cpu(of: str, kind: str) -> str:
    return f"quantity(string({of}.?resources.?{kind}[?'cpu'].orValue('0')))"


def _word(field: str, *, of: str = "resourceSpec", otherwise: str) -> str:
    given = f"variables.{of}Fields.filter(f, f[0] == {literal(field)} && f[1] != '')"
    return f"{given}.size() > 0 ? {given}[0][1] : {literal(otherwise)}"
