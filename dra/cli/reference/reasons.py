"""docs/reference/reasons.md: each reason that users see, with meaning, cause and remedy."""

from collections.abc import Iterable
from typing import Final

from dra.cli.reference import markdown
from dra.engine.claims.codes import Code
from dra.engine.cpus.failures import CpuFailureReason
from dra.engine.cpus.node_policies import NodeLabelReason
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.impairments import ClaimImpairment, Impairment
from dra.engine.messages.object_sizes import ObjectSizeReason
from dra.engine.messages.texts import ExplainedReason
from dra.engine.migration.reasons import MigrationReason
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.engine.resctrl.reasons import ResctrlCode
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_reasons import ReservationReason
from dra.engine.suppression.notices import NoticeReason

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
                (f"`{code.value}`", code.severity.value, code.guidance.keeps_devices.value, *_guidance_cells(code))
                for code in Code
            ],
        ),
        "## Found by `kubectl dra explain` and `audit`\n",
        "Problems that are not reported as Events. Reasons of the table above have the same meaning here.\n",
        _guidance_table(problem for problem in ProblemCode if problem.value not in set(Code)),
        "## Of Reservations\n",
        "Reasons of conditions and Events.\n",
        _guidance_table(ReservationReason),
        "## Why a pod cannot use a reservation\n",
        "The scheduler's Event has the text of the second column with counts, as in Koordinator.\n",
        markdown.table(
            ("reason", "text", *_COLUMNS[1:]),
            [
                (f"`{why.value}`", Rejection(reason=why, subject="…").text, *_guidance_cells(why))
                for why in RejectionReason
            ],
        ),
        "## Of PodMigrationJobs\n",
        "Reasons of conditions, failures and Events.\n",
        _guidance_table(MigrationReason),
        "## Of objects of any kind\n",
        "Reason of Events of controller, extender and descheduler; the metric `dra_reserve_objects_too_large` counts\n"
        "the objects.\n",
        _guidance_table(ObjectSizeReason),
        "## Of the kubelet plugin\n",
        "Reasons of Events on the Node, and of the metric `dra_reserve_plugin_impaired`. The plugin is not ready\n"
        "meanwhile.\n",
        _guidance_table(Impairment),
        "Reason of an Event on the Node about a claim. The plugin stays ready.\n",
        _guidance_table(ClaimImpairment),
        "Reason of an Event about a label of the Node. The plugin stays ready.\n",
        _guidance_table(NodeLabelReason),
        "Reasons of Events about L3 cache and memory bandwidth that are not divided between QoS classes, and of the\n"
        "metric `dra_reserve_node_resctrl_impaired`. The plugin stays ready.\n",
        _guidance_table(ResctrlCode),
        "Reasons of Events about the limits of batch pods, and about how far these are held back. The plugin stays\n"
        "ready.\n",
        _guidance_table(NoticeReason),
        "## Why a node refuses a claim\n",
        "Reasons of the condition `Ready` in the claim's `status.devices[]`, with status `False`. Metrics of the\n"
        "controller count them.\n",
        _guidance_table(PrepareRefusalReason),
        "## Why no CPUs are allocated\n",
        _guidance_table(CpuFailureReason),
    )


def _guidance_cells(reason: ExplainedReason) -> tuple[str, str, str]:
    return reason.guidance.meaning, reason.guidance.cause, reason.guidance.remedy


def _guidance_table(reasons: Iterable[ExplainedReason]) -> str:
    return markdown.table(_COLUMNS, [(f"`{reason.value}`", *_guidance_cells(reason)) for reason in reasons])
