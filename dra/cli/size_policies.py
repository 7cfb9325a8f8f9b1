"""Writes deploy/reservations/sizes.yaml and deploy/descheduler/sizes.yaml: ``python -m dra.cli.size_policies``.

A Reservation has a pod template, and a PodMigrationJob may have one. A schema cannot describe templates, since each
release of Kubernetes adds fields, so schemas let unknown fields pass; and an API server stores objects of a megabyte
and a half. Each program that watches the kind decodes them: a list of empty objects then takes 25 times as much.

CEL has no function for the size of an object, but its ``format`` writes any value as text, at a cost that does not
depend on the value. Its time grows with the number of levels, so these are counted before. That walks through all
values; it ends at a list or map that is too long, and at the latest where the API server ends every expression. The
number of values is at most that of commas and opening brackets in the text.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

from dra.api.structural_schema import MAX_ENTRIES
from dra.cli import policy_documents

MAX_CHARACTERS: Final = 256 << 10
"""Maximum number of characters of a spec with its templates. Templates are pods, which rarely have a tenth of that."""

MAX_VALUES: Final = 16 << 10
"""Maximum number of values in a spec, counted as commas and opening brackets."""

MAX_METADATA_ENTRIES: Final = {"labels": 256, "annotations": 256, "finalizers": 64, "ownerReferences": 64}
"""Maximum number of entries of each part of the metadata that the API server does not limit."""

MAX_REFERENCE_LENGTH: Final = 1024
"""Maximum length of the texts of an owner reference together."""

DEPLOY: Final = Path(__file__).parents[2] / "deploy"

_HEADER: Final = """\
# Made by `python -m dra.cli.size_policies`; change dra/cli/size_policies.py, not this file.
#
# Limits the size of objects that all our programs read. An existing object stays writable as long as the
# part that is too large does not change: status, finalizers and deletion are not affected.
"""


class LimitedKind(NamedTuple):
    """A kind whose size is limited."""

    file: Path
    policy: str
    resource: str
    levels: int
    """Maximum number of levels of lists and maps in the spec; templates of Kubernetes have 11, and begin at level 1."""

    remedy: str


KINDS: Final = (
    LimitedKind(
        file=DEPLOY / "reservations" / "sizes.yaml",
        policy="reservation-sizes.reserve.dra",
        resource="reservations",
        levels=13,
        remedy="leave out of spec.template what decides about no resources or nodes, such as env, args and volumes",
    ),
    LimitedKind(
        file=DEPLOY / "descheduler" / "sizes.yaml",
        policy="migration-sizes.reserve.dra",
        resource="podmigrationjobs",
        levels=16,
        remedy="leave spec.reservationOptions.template out, so that the descheduler makes it from the pod",
    ),
)


def manifest(kind: LimitedKind) -> str:
    """Return the content of the file of a kind."""
    return f"{_HEADER}{policy_documents.dump(_documents(kind))}"


def exceeds_shape(name: str, *, levels: int, depth: int = 0) -> str:
    """Return an expression: whether a value has too many levels, or a list or map with too many entries."""
    if depth == levels:
        return f"(type({name}) == map || type({name}) == list) && size({name}) > 0"
    child = f"v{depth + 1}"
    return (
        f"(type({name}) == map || type({name}) == list) && size({name}) > {MAX_ENTRIES} ||\n"
        f"(type({name}) == map ? {name}.map(k, {name}[k]) : type({name}) == list ? {name} : []).exists({child},\n"
        f"{exceeds_shape(child, levels=levels, depth=depth + 1)})"
    )


def _documents(kind: LimitedKind) -> list[dict[str, Any]]:
    rule = {
        "apiGroups": ["scheduling.koordinator.sh"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.resource],
    }
    variables = {
        "spec": "oldObject != null && object.spec == oldObject.spec ? dyn({}) : dyn(object.spec)",
        "misshapen": exceeds_shape("variables.spec", levels=kind.levels),
        "text": "variables.misshapen ? '' : '%s'.format([variables.spec])",
        "values": (
            f"size(variables.text) > {MAX_CHARACTERS} ? 0\n"
            ": [',', '[', '{'].map(separator, size(variables.text.split(separator)) - 1).sum()"
        ),
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "variables": policy_documents.named(variables),
        "validations": [*_spec_validations(kind), *_metadata_validations()],
    }
    binding = {"policyName": kind.policy, "validationActions": ["Deny"]}
    return [
        policy_documents.document("ValidatingAdmissionPolicy", kind.policy, spec),
        policy_documents.document("ValidatingAdmissionPolicyBinding", kind.policy, binding),
    ]


def _spec_validations(kind: LimitedKind) -> list[dict[str, str]]:
    return [
        {
            "expression": "!variables.misshapen",
            "message": f"spec: has a list or map of more than {MAX_ENTRIES} entries, or more than {kind.levels} levels "
            f"of them; {kind.remedy}",
        },
        {
            "expression": f"size(variables.text) <= {MAX_CHARACTERS}",
            "messageExpression": "'spec: has ' + string(size(variables.text)) + "
            f"' characters, the maximum is {MAX_CHARACTERS}; {kind.remedy}'",
        },
        {
            "expression": f"variables.values <= {MAX_VALUES}",
            "messageExpression": "'spec: has up to ' + string(variables.values) + "
            f"' values, the maximum is {MAX_VALUES}; {kind.remedy}'",
        },
    ]


def _metadata_validations() -> list[dict[str, str]]:
    counted = [
        {
            "expression": f"size(object.metadata.?{part}.orValue({_empty(part)})) <= {maximum} || oldObject != null\n"
            f"&& size(object.metadata.?{part}.orValue({_empty(part)})) "
            f"<= size(oldObject.metadata.?{part}.orValue({_empty(part)}))",
            "messageExpression": f"'metadata.{part}: has ' + string(size(object.metadata.?{part}"
            f".orValue({_empty(part)}))) + ' entries, the maximum is {maximum}; remove those that are not needed'",
        }
        for part, maximum in MAX_METADATA_ENTRIES.items()
    ]
    references = {
        "expression": "oldObject != null && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences\n"
        "|| object.metadata.?ownerReferences.orValue([]).all(o,\n"
        f"size(o.apiVersion) + size(o.kind) + size(o.name) + size(o.uid) <= {MAX_REFERENCE_LENGTH})",
        "message": f"metadata.ownerReferences: one has more than {MAX_REFERENCE_LENGTH} characters; no object has such "
        "a name",
    }
    return [*counted, references]


def _empty(part: str) -> str:
    return "{}" if part in {"labels", "annotations"} else "[]"


def main() -> None:
    """Write the files of all kinds."""
    for kind in KINDS:
        kind.file.write_text(manifest(kind), encoding="utf-8")
        print(kind.file)


if __name__ == "__main__":
    main()
