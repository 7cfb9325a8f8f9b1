"""docs/reference/reasons.md: each reason that users see, with meaning, cause and remedy."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dra.cli.reference import markdown
from dra.engine.claims.meanings import CODES
from dra.engine.claims.reasons import REASON_TEXTS, Code
from dra.engine.cpus.failures import CPU_FAILURE_GUIDANCE
from dra.engine.cpus.node_policies import NODE_LABEL_GUIDANCE
from dra.engine.diagnosis.problem_guidance import PROBLEM_GUIDANCE
from dra.engine.messages.impairments import CLAIM_IMPAIRMENTS, IMPAIRMENTS
from dra.engine.messages.object_sizes import OBJECT_SIZE_GUIDANCE
from dra.engine.messages.texts import Guidance
from dra.engine.migration.guidance import MIGRATION_REASON_GUIDANCE
from dra.engine.prepare_refusals.reasons import PREPARE_REFUSAL_GUIDANCE
from dra.engine.resctrl.reasons import RESCTRL_GUIDANCE
from dra.engine.reservations.rejections import Rejection
from dra.engine.reservations.reservation_guidance import REJECTION_GUIDANCE, RESERVATION_REASON_GUIDANCE
from dra.engine.suppression.notices import BATCH_POD_GUIDANCE

_COLUMNS: Final = ("reason", "means", "comes about", "what to do")


def page() -> str:
    """Return docs/reference/reasons.md as Markdown."""
    return markdown.page(
        "Reasons",
        "All reasons of Events, conditions, metrics and `kubectl dra`. To display one of the reasons without a\n"
        "cluster, run `kubectl dra explain reason NAME`. In the commands below, `NAME` is the name of the object and\n"
        "`NAMESPACE` its namespace.\n",
        "## Of claims and pods\n",
        "Reasons of Events; the metric `dra_reserve_reasons_total` counts them. *kept*: whether the claim keeps its\n"
        "devices meanwhile. An Event of type `Warning` requires attention.\n",
        markdown.table(
            ("reason", "type", "kept", *_COLUMNS[1:]),
            [
                (
                    f"`{code.value}`",
                    REASON_TEXTS[code].severity.value,
                    guidance.keeps_devices.value,
                    *_guidance_cells(guidance),
                )
                for code, guidance in CODES.items()
            ],
        ),
        "## Found by `kubectl dra explain` and `audit`\n",
        "Problems that are not reported as Events. Reasons of the table above have the same meaning here.\n",
        _guidance_table(
            (problem, guidance) for problem, guidance in PROBLEM_GUIDANCE.items() if problem.value not in set(Code)
        ),
        "## Of Reservations\n",
        "Reasons of conditions and Events.\n",
        _guidance_table(RESERVATION_REASON_GUIDANCE.items()),
        "## Why a pod cannot use a reservation\n",
        "The scheduler's Event has the text of the second column with counts, as in Koordinator.\n",
        markdown.table(
            ("reason", "text", *_COLUMNS[1:]),
            [
                (f"`{why.value}`", Rejection(reason=why, subject="…").text, *_guidance_cells(guidance))
                for why, guidance in REJECTION_GUIDANCE.items()
            ],
        ),
        "## Of PodMigrationJobs\n",
        "Reasons of conditions, failures and Events.\n",
        _guidance_table(MIGRATION_REASON_GUIDANCE.items()),
        "## Of objects of any kind\n",
        "Reason of Events of controller, extender and descheduler; the metric `dra_reserve_objects_too_large` counts\n"
        "the objects.\n",
        _guidance_table(OBJECT_SIZE_GUIDANCE.items()),
        "## Of the kubelet plugin\n",
        "Reasons of Events on the Node, and of the metric `dra_reserve_plugin_impaired`. The plugin is not ready\n"
        "meanwhile.\n",
        _guidance_table(IMPAIRMENTS.items()),
        "Reason of an Event on the Node about a claim. The plugin stays ready.\n",
        _guidance_table(CLAIM_IMPAIRMENTS.items()),
        "Reason of an Event about a label of the Node. The plugin stays ready.\n",
        _guidance_table(NODE_LABEL_GUIDANCE.items()),
        "Reasons of Events about L3 cache and memory bandwidth that are not divided between QoS classes, and of the\n"
        "metric `dra_reserve_node_resctrl_impaired`. The plugin stays ready.\n",
        _guidance_table(RESCTRL_GUIDANCE.items()),
        "Reasons of Events about the limits of batch pods, and about how far these are held back. The plugin stays\n"
        "ready.\n",
        _guidance_table(BATCH_POD_GUIDANCE.items()),
        "## Why a node refuses a claim\n",
        "Reasons of the condition `Ready` in the claim's `status.devices[]`, with status `False`. Metrics of the\n"
        "controller count them.\n",
        _guidance_table(PREPARE_REFUSAL_GUIDANCE.items()),
        "## Why no CPUs are allocated\n",
        _guidance_table(CPU_FAILURE_GUIDANCE.items()),
    )


def _guidance_cells(guidance: Guidance) -> tuple[str, str, str]:
    return guidance.meaning, guidance.cause, guidance.remedy


def _guidance_table(meanings: Iterable[tuple[StrEnum, Guidance]]) -> str:
    return markdown.table(
        _COLUMNS, [(f"`{member.value}`", *_guidance_cells(guidance)) for member, guidance in meanings]
    )
