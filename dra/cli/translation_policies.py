"""Writes deploy/koordinator/policies.yaml from `dra.engine.translation`: ``python -m dra.cli.translation_policies``.

A test compares the file with the engine, so that neither can be changed alone; a scenario compares what both make of
thousands of pods.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dra.api.koordinator import well_known
from dra.cli import policy_documents
from dra.cli import translation_expressions as expressions
from dra.cli.policy_documents import condition, named, pods

POLICIES_FILE: Final = Path(__file__).parents[2] / "deploy" / "koordinator" / "policies.yaml"

REQUESTS: Final = "koordinator-requests.reserve.dra"
CLASSES: Final = "koordinator-classes.reserve.dra"

_HEADER: Final = f"""\
# Made by `python -m dra.cli.translation_policies` from dra/engine/translation; change the engine, not this file.
#
# Translates requests for CPUs and GPUs in Koordinator's form into resource claims, at the creation of a pod, and
# refuses requests that cannot be translated. Needs Kubernetes 1.36 (MutatingAdmissionPolicy v1). Applies to the pods of
# namespaces with the label {well_known.LABEL_ENABLED}={well_known.ENABLED}, no others.
#
# | policy | what |
# |---|---|
# | {REQUESTS} (mutating) | adds the claims, and takes koordinator.sh/gpu* off the containers |
# | {REQUESTS} (validating) | refuses requests that have no translation, with the path of the field |
# | {CLASSES} | the QoS class, the priority class and the bound CPUs of a pod do not change |
#
# failurePolicy is Fail: an untranslated pod would run without the CPUs or GPUs that it asks for. The API server
# evaluates the policies itself, without a webhook that could be down.
"""


def policies() -> str:
    """Return the content of the file."""
    return f"{_HEADER}{policy_documents.dump(_documents())}"


def _documents() -> list[dict[str, Any]]:
    refusals = expressions.refusal_variables()
    validation = {
        "expression": "variables.refusals.size() == 0",
        "reason": "Invalid",
        "message": "a request in Koordinator's form has no translation",
        "messageExpression": expressions.message(),
    }
    return [
        policy_documents.document(
            "MutatingAdmissionPolicy",
            REQUESTS,
            {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": pods("CREATE"),
                # A policy sees its own result again: the second condition is false then.
                "matchConditions": [
                    condition("no-mirror", expressions.IS_NO_MIRROR),
                    condition("asks", expressions.asks()),
                ],
                "variables": named(refusals | expressions.entry_variables()),
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expressions.mutation()}}],
            },
        ),
        _binding("MutatingAdmissionPolicyBinding", REQUESTS),
        *_validating(
            REQUESTS,
            operations=["CREATE"],
            conditions=[
                condition("no-mirror", expressions.IS_NO_MIRROR),
                condition("may-be-refused", expressions.may_be_refused()),
            ],
            variables=refusals,
            validation=validation,
        ),
        *_validating(
            CLASSES,
            operations=["UPDATE"],
            conditions=[],
            variables=expressions.change_variables(),
            validation={**validation, "message": "the classes and the bound CPUs of a pod are immutable"},
            resources=("pods", "pods/resize"),
        ),
    ]


def _validating(
    name: str,
    *,
    operations: list[str],
    conditions: list[dict[str, str]],
    variables: dict[str, str],
    validation: dict[str, str],
    resources: Sequence[str] = ("pods",),
) -> list[dict[str, Any]]:
    """Return a validating policy and its binding."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": pods(*operations, resources=resources),
        "matchConditions": conditions,
        "variables": named(variables),
        "validations": [validation],
    }
    return [
        policy_documents.document(
            "ValidatingAdmissionPolicy", name, {field: value for field, value in spec.items() if value}
        ),
        _binding("ValidatingAdmissionPolicyBinding", name, validationActions=["Deny"]),
    ]


def _binding(kind: str, name: str, **more: list[str]) -> dict[str, Any]:
    namespaces = {"matchLabels": {well_known.LABEL_ENABLED: well_known.ENABLED}}
    spec = {"policyName": name, **more, "matchResources": {"namespaceSelector": namespaces}}
    return policy_documents.document(kind, name, spec)


def main() -> None:
    """Write the policies into deploy/koordinator/."""
    POLICIES_FILE.parent.mkdir(exist_ok=True)
    POLICIES_FILE.write_text(policies(), encoding="utf-8")
    print(POLICIES_FILE)


if __name__ == "__main__":
    main()
