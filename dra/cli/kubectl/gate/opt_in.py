"""The opt-in of namespaces to the scheduling gate, and the texts that name its costs."""

from typing import Final

from dra.engine.messages.documentation import page_url

GATE_POLICY: Final = "gate.reserve.dra"
"""Name of the MutatingAdmissionPolicy that adds the gate, and of its binding."""

GATE_LABEL: Final = "reserve.dra/gate"
ENABLED: Final = "enabled"
"""Value of the label in namespaces whose pods the policy gates."""

COSTS: Final = (
    "each new pod there that names a claim waits until the controller removes the gate (one PATCH a pod), and none "
    "starts while no controller works"
)

WITHOUT_POLICY: Final = (
    "the gate by policy requires Kubernetes 1.36; before, write the gate reserve.dra/claim into the pod templates: "
    + page_url("how-to/scheduling-gate.md")
)
"""What to do instead where the API server does not serve MutatingAdmissionPolicy in v1."""
