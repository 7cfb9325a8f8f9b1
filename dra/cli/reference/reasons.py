"""docs/reference/reasons.md: each reason that anybody gets to see, with meaning, cause and remedy."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dra.cli.reference import markdown
from dra.engine.cpus.meanings import CPUS, GIVEN
from dra.engine.explain.meanings import TROUBLES
from dra.engine.guidance import Guidance
from dra.engine.impairments import IMPAIRMENTS
from dra.engine.meanings import CODES
from dra.engine.reasons import RENDERINGS, Code
from dra.engine.reservations.meanings import CONDITIONS, REFUSALS
from dra.engine.reservations.refusals import Refusal

_HEAD: Final = ("reason", "means", "comes about", "what to do")


def page() -> str:
    """Return the page."""
    return markdown.page(
        "Reasons",
        "Everything that is told by a name, in Events, conditions, metrics and `kubectl dra`. One of them\n"
        "on the command line, without a cluster: `kubectl dra explain reason NAME`. In what follows `NAME` is the\n"
        "object and `NAMESPACE` where it is.\n",
        "## Of claims and pods\n",
        "Reasons of Events; the metric `dra_reserve_reasons_total` counts them. *kept*: whether the claim keeps its\n"
        "devices meanwhile. A type `Warning` is one that somebody should look at.\n",
        markdown.table(
            ("reason", "type", "kept", *_HEAD[1:]),
            [
                (f"`{code.value}`", RENDERINGS[code].severity.value, each.kept.value, *_said(each))
                for code, each in CODES.items()
            ],
        ),
        "## Found by `kubectl dra explain` and `audit`\n",
        "Problems that are no Events; those of the table above mean the same there.\n",
        _table((each, said) for each, said in TROUBLES.items() if each.value not in set(Code)),
        "## Of Reservations\n",
        "Reasons of conditions and Events.\n",
        _table(CONDITIONS.items()),
        "## Why a pod has no place in a reservation\n",
        "The scheduler's Event has the words of the second column, with counts, as Koordinator's users know them.\n",
        markdown.table(
            ("reason", "text", *_HEAD[1:]),
            [(f"`{why.value}`", Refusal(why=why, subject="…").text, *_said(each)) for why, each in REFUSALS.items()],
        ),
        "## Of the kubelet plugin\n",
        "Reasons of Events on the Node, and of the metric `dra_reserve_plugin_impaired`. The plugin is not ready\n"
        "meanwhile.\n",
        _table(IMPAIRMENTS.items()),
        "## Why no CPUs are given\n",
        _table((each, CPUS[each]) for each in GIVEN),
    )


def _said(each: Guidance) -> tuple[str, str, str]:
    return each.meaning, each.cause, each.remedy


def _table(meanings: Iterable[tuple[StrEnum, Guidance]]) -> str:
    return markdown.table(_HEAD, [(f"`{member.value}`", *_said(each)) for member, each in meanings])
