"""The releases on whose CRDs the built-in release rules were tried, for docs/reference/configuration.md."""

from typing import Final, NamedTuple

from dra.cli.reference import markdown


class Trial(NamedTuple):
    """A kind of workload, and the releases whose CRD of that kind was tried."""

    version: str
    """Version of the API."""

    releases: tuple[str, ...]
    remark: str = ""


_UNTIL_1_8: Final = "Up to v1.8.1 the CRD has no field `resourceClaimName`: the API server drops the pods' claims."

TRIALS: Final = {
    "jobsets.jobset.x-k8s.io": Trial("v1alpha2", ("jobset v0.12.0",), "A restart replaces the Jobs: name the JobSet."),
    "rayjobs.ray.io": Trial(
        "v1", ("kuberay v1.7.0",), "A RayJob that is `Retrying` gets a new RayCluster and keeps the claim."
    ),
    "rayclusters.ray.io": Trial("v1", ("kuberay v1.7.0",), "A suspended RayCluster keeps the claim."),
    "trainjobs.trainer.kubeflow.org": Trial(
        "v1alpha1",
        ("trainer v2.3.0",),
        "The runtime names the pods' claim. A failed TrainJob runs again if its JobSet is deleted.",
    ),
    **{
        f"{kind}.kubeflow.org": Trial("v1", ("training-operator v1.8.1", "training-operator v1.9.0"), _UNTIL_1_8)
        for kind in ("pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs")
    },
    "jaxjobs.kubeflow.org": Trial("v1", ("training-operator v1.9.0",)),
    "leaderworkersets.leaderworkerset.x-k8s.io": Trial("v1", ("lws v0.10.0",), "Scaled to zero, it keeps the claim."),
    "jobs.batch.volcano.sh": Trial("v1alpha1", ("volcano v1.15.1",), "An `Aborted` Job can be resumed."),
    "workloads.kueue.x-k8s.io": Trial(
        "v1beta2", ("kueue v0.19.2",), "`Finished` also if Kueue replaced the Workload by another one: name the Job."
    ),
}
"""Trials by resource. `tests/scenarios/beside/test_release_rules.py` does them."""


def section() -> str:
    """Return the section of the page."""
    return (
        "## Where the rules were tried\n\n"
        "Kinds that are not part of Kubernetes were tried on the CRDs of the releases below, on a real API server.\n"
        "Each claim stays reserved in every state that the operator writes before the end. A status that changes back\n"
        "and forth releases no claim that a pod uses. The operators themselves did not run: a test writes what their\n"
        "sources write (`tests/scenarios/beside/test_release_rules.py`). CI cannot download the CRDs of kuberay, lws,\n"
        "volcano and training-operator v1.9.0; it uses stand-ins with the same status.\n\n"
    ) + markdown.table(
        ("workload", "API version", "CRD of", "note"),
        [
            (f"`{kind}`", f"`{trial.version}`", ", ".join(trial.releases), trial.remark)
            for kind, trial in TRIALS.items()
        ],
    )
