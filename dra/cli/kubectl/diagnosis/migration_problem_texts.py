"""Texts for the problems of PodMigrationJobs."""

from collections.abc import Mapping
from typing import Final

from dra.cli.kubectl.diagnosis.problem_wording import ProblemText
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.remedies import WeighedChoice

MIGRATION_PROBLEM_TEXTS: Final[Mapping[ProblemCode, ProblemText]] = {
    ProblemCode.NO_DESCHEDULER: ProblemText(
        "is to migrate pod {pod}, but no descheduler is known to run (lease {lease})",
        WeighedChoice("start the descheduler; to look for it: kubectl get pods -n {space}"),
    ),
    ProblemCode.MIGRATION_PAUSED: ProblemText(
        "is paused, so no step is begun for pod {pod}; its ttl goes on",
        WeighedChoice("set spec.paused of the job to false to continue: kubectl edit podmigrationjob {name}"),
    ),
    ProblemCode.MIGRATION_UNAPPROVED: ProblemText(
        "waits for approval to move pod {pod}, as {plugin} asks: {why}",
        WeighedChoice("approve migration {name}, or reject it: then the pod stays. See kubectl dra approve --help"),
    ),
    ProblemCode.BUDGET_FORBIDS_MIGRATION: ProblemText(
        "pod {pod} cannot be evicted: disruption budget {budget} requires {desired} healthy pods, {healthy} are, and "
        "none is to spare",
        WeighedChoice(
            "the owner of budget {budget} decides: one more pod, or a budget that allows an eviction; waiting does not "
            "help"
        ),
    ),
}
