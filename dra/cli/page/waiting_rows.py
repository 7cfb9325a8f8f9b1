"""The rows of claims that pods wait for, with the reason that ``kubectl dra explain`` gives.

A reason compares a pod with every node: 20 ms in a small cluster, a second in a large one. So equal claims have one
reason, of the first pod that waits; one reason is computed at a time, the oldest first, while somebody looks, and in a
twentieth of the time of the worker. Until then, a row has the first problem of the claim, or the scheduler's words.
"""

from collections.abc import Iterable
from time import perf_counter
from typing import Final, NamedTuple

import msgspec

from dra.cli.kubectl import printers
from dra.cli.kubectl.diagnosis import advice_texts, describer, problem_texts
from dra.cli.page.page_rows import claim_reason
from dra.cli.page.views import Cells, Rows
from dra.engine.diagnosis import pods
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.problem_codes import ProblemSeverity
from dra.engine.diagnosis.waiting_claims import WaitingClaims
from dra.engine.messages.texts import singularize
from dra.model.meta import Key

FRESH_SECONDS: Final = 30.0
"""Seconds after which a reason is computed again."""

SHARE: Final = 20
"""Part of the time of the worker, one in so many, that reasons may take."""

GROUPS_SHOWN: Final = 2
"""Number of groups of nodes that a reason names."""


class Reason(NamedTuple):
    """The reason why a pod waits, with the command that is safe to paste."""

    text: str
    command: str
    at: float
    """Time at which it was computed, by `perf_counter`."""


class WaitingRows:
    """The groups of waiting claims and their reasons."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._groups: dict[Key, WaitingClaims] = {}
        self._reasons: dict[Key, Reason] = {}
        """First claim of a group → the reason of its first pod."""

        self._due_at = 0.0

    def replace(self, cluster: LiveCluster, groups: Iterable[WaitingClaims]) -> None:
        """Set the groups; reasons of claims that changed are computed again."""
        before, self._groups = self._groups, {group.example.key: group for group in groups}
        self._reasons = {
            key: reason._replace(at=reason.at if before.get(key) == self._groups[key] else -FRESH_SECONDS)
            for key, reason in self._reasons.items()
            if key in self._groups
        }
        self._rows.replace({"/".join(key): self._cells(cluster, key) for key in self._groups})

    def due_in(self) -> float | None:
        """Return the seconds until a reason is due; None if no claim waits."""
        times = [reason.at + FRESH_SECONDS for reason in self._reasons.values()]
        if not self._groups:
            return None
        first = min(times) if len(times) == len(self._groups) else 0.0
        return max(first, self._due_at) - perf_counter()

    def explain_next(self, cluster: LiveCluster) -> None:
        """Compute the reason that is due, if there is one."""
        wait = self.due_in()
        if wait is None or wait > 0:
            return
        key = min(self._groups, key=lambda name: self._reasons[name].at if name in self._reasons else float("-inf"))
        began = perf_counter()
        waiters = self._groups[key].example.waiters
        facts = pods.explain(cluster, (key[0], waiters[0])) if waiters else None
        text, command = explained_reason(facts) if facts is not None else ("", "")
        now = perf_counter()
        self._reasons[key] = Reason(text, command, now)
        self._due_at = now + (SHARE - 1) * (now - began)
        self._rows.put("/".join(key), self._cells(cluster, key))

    def _cells(self, cluster: LiveCluster, key: Key) -> Cells:
        group, facts = self._groups[key], self._groups[key].example
        why, command = claim_reason(cluster, facts)
        reason = self._reasons.get(key)
        if reason is not None and reason.text:
            why, command = reason.text, reason.command or command
        grade = facts.problems[0].severity.value if facts.problems else ""
        state = "Pending" if not facts.allocated else "Reserved" if not facts.users.consuming else "InUse"
        return (
            key[0],
            key[1],
            str(group.count - 1),
            facts.holder or "<none>",
            str(group.pods),
            state,
            grade,
            why,
            command,
            ", ".join(group.names[1:]),
        )


def explained_reason(facts: PodDiagnosis) -> tuple[str, str]:
    """Return why a pod waits, as `kubectl dra explain` says it, and the command that would help; empty if unknown."""
    own = {facts.uid, *(claim.uid for claim in facts.claims)}
    problems = [p for p in facts.problems if p.severity is not ProblemSeverity.INFO and p.subject.uid in own]
    problem = next((p for p in problems if p.subject.uid == facts.uid), problems[0] if problems else None)
    if problem is None:
        return "", ""
    texts = [f"{problem.code}: {singularize(problem_texts.problem_note(problem))}"]
    texts += (
        describer.node_group_text(msgspec.structs.replace(group, holders=(), others=0), {})
        for group in facts.groups[:GROUPS_SHOWN]
    )
    if len(facts.groups) > GROUPS_SHOWN:
        texts.append("…")
    advised = printers.remedy_data(advice_texts.advice_remedy(facts.advice)).get("command", "")
    return "; ".join(texts), advised or problem_texts.safe_command(problem, within=facts.key[0])
