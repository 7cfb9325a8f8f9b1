"""Writes deploy/colocation-profiles/policies.yaml from `dra.engine.profiles`: ``python -m dra.cli.profile_policies``.

A test compares the file with the engine, so that neither can be changed alone; a scenario compares what both make of
generated pods and profiles.
"""

from pathlib import Path
from typing import Any, Final

from dra.api.profiles import parameters
from dra.api.profiles.well_known import GUARD, LIMIT_RANGES, PARAMETERS, POLICY
from dra.cli import policy_documents
from dra.cli import profile_expressions as expressions
from dra.cli.policy_documents import condition, named, pods
from dra.engine.profiles.guard import MAX_REFUSALS

POLICIES_FILE: Final = Path(__file__).parents[2] / "deploy" / "colocation-profiles" / "policies.yaml"

_HEADER: Final = f"""\
# Made by `python -m dra.cli.profile_policies` from dra/engine/profiles; change the engine, not this file.
#
# Applies ClusterColocationProfiles to new pods, and refuses batch pods whose requests would count wrongly. Needs
# Kubernetes 1.36 (MutatingAdmissionPolicy v1).
#
# | policy | what |
# |---|---|
# | {POLICY} | sets what the profiles say, and translates the requests of batch pods |
# | {GUARD} | refuses batch pods with plain CPU or memory, and amounts of batch resources with a fraction |
# | {LIMIT_RANGES} | warns of a LimitRange that gives CPU or memory to a batch pod |
#
# The expressions are constants: profiles are data, in the {parameters.KIND} with the name {PARAMETERS}. That
# object is written by `dra-reserve colocation-profiles`, or by a person (docs/how-to/colocation.md). An API server
# evaluates several policies in no defined order, and subjects policies to no admission; so profiles as policies could
# neither be ordered nor be limited.
#
# failurePolicy of {POLICY} is Ignore: a pod without its profile runs as it was written. The API server evaluates the
# policies itself, without a webhook that could be down.
"""


def policies() -> str:
    """Return the content of the file."""
    return f"{_HEADER}{policy_documents.dump(documents())}"


def documents() -> list[dict[str, Any]]:
    """Return the policies and their bindings."""
    return [_mutating_policy(), _binding(), *_guard(), *_limit_ranges()]


def _mutating_policy() -> dict[str, Any]:
    spec = {
        "failurePolicy": "Ignore",
        # A webhook or a LimitRange adds requests after the first round; the patch of a changed pod changes nothing.
        "reinvocationPolicy": "IfNeeded",
        "paramKind": {"apiVersion": parameters.API_VERSION, "kind": parameters.KIND},
        "matchConstraints": pods("CREATE"),
        "matchConditions": [
            *named(expressions.CONDITIONS),
            condition("profiles", expressions.HAS_PROFILES),
        ],
        "variables": named(expressions.profile_variables()),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expressions.mutation()}}],
    }
    return policy_documents.document("MutatingAdmissionPolicy", POLICY, spec)


def _binding() -> dict[str, Any]:
    reference = {"name": PARAMETERS, "parameterNotFoundAction": "Allow"}
    return policy_documents.document(
        "MutatingAdmissionPolicyBinding", POLICY, {"policyName": POLICY, "paramRef": reference}
    )


def _guard() -> list[dict[str, Any]]:
    refusals = "variables.refusals"
    limit = MAX_REFUSALS
    validation = {
        "expression": f"{refusals}.size() == 0",
        "reason": "Invalid",
        "message": "the requests of a batch pod would count wrongly",
        "messageExpression": f"({refusals}.size() > {limit} ? {refusals}.slice(0, {limit}) : {refusals}).join('; ')",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": pods("CREATE"),
        "matchConditions": [
            *named(expressions.CONDITIONS),
            condition("may-be-refused", expressions.MAY_BE_REFUSED),
        ],
        "variables": named(expressions.guard_variables()),
        "validations": [validation],
    }
    return [
        policy_documents.document("ValidatingAdmissionPolicy", GUARD, spec),
        policy_documents.document(
            "ValidatingAdmissionPolicyBinding", GUARD, {"policyName": GUARD, "validationActions": ["Deny"]}
        ),
    ]


def _limit_ranges() -> list[dict[str, Any]]:
    """Return the policy that warns: of several denials a client sees one, so this one would hide the guard's."""
    variables = expressions.guard_variables()
    spec = {
        "failurePolicy": "Ignore",
        "paramKind": {"apiVersion": "v1", "kind": "LimitRange"},
        "matchConstraints": pods("CREATE"),
        "matchConditions": [
            *named(expressions.CONDITIONS),
            condition("may-be-refused", expressions.MAY_BE_REFUSED),
        ],
        "variables": named({name: variables[name] for name in ("containers", "isGuarded", "plain")}),
        "validations": [
            {
                "expression": expressions.limit_range_validation(),
                "message": "a LimitRange gives cpu or memory to a batch pod",
                "messageExpression": expressions.limit_range_message(),
            }
        ],
    }
    binding = {
        "policyName": LIMIT_RANGES,
        "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
        "validationActions": ["Warn"],
    }
    return [
        policy_documents.document("ValidatingAdmissionPolicy", LIMIT_RANGES, spec),
        policy_documents.document("ValidatingAdmissionPolicyBinding", LIMIT_RANGES, binding),
    ]


def main() -> None:
    """Write the policies into deploy/colocation-profiles/."""
    POLICIES_FILE.parent.mkdir(exist_ok=True)
    POLICIES_FILE.write_text(policies(), encoding="utf-8")
    print(POLICIES_FILE)


if __name__ == "__main__":
    main()
