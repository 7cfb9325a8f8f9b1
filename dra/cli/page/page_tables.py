"""The rows of all views, kept up to date with a live cluster: a change costs as much as the rows that it affects.

`update` works in steps of limited size, so that a first list of ten thousand claims never holds up the rows of a claim
that changes meanwhile. Views whose rows are sums are computed again once the dirty rows are done, one part in a step.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from time import perf_counter
from typing import Final, TypeVar

from dra.api.reservations.model import ReservationPhase
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.diagnosis.usage import claim_usage_row, consuming_pods, group_claims, node_usage_row
from dra.cli.kubectl.migrations.migration_list import pod_nodes
from dra.cli.page import page_rows
from dra.cli.page.page_rows import MAP_LETTERS, problem_cells
from dra.cli.page.past_holders import PastHolders
from dra.cli.page.views import COLUMNS, STATE_COLUMNS, Cells, Patch, Rows, row_state
from dra.cli.page.waiting_rows import WaitingRows
from dra.engine.devices.ledger import DeviceID
from dra.engine.diagnosis import audit, claims, colocation_problems, pools
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.claim_workloads import claim_workloads
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.devices import DeviceUsage
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.problems import Problem
from dra.engine.diagnosis.rounds import rounds
from dra.engine.diagnosis.waiting_claims import group_waiting
from dra.model.meta import Key, Uid

STEP: Final = 40
"""Maximum number of claims that one step diagnoses: about 40 ms, for which the row of another claim waits."""

ROWS_PER_PART: Final = 1_000
"""Maximum number of claims that one step groups, and of groups or problems whose rows one step computes."""

OVERVIEW_STEPS: Final = 10
"""Number of steps after which the overview shows how much is left, while more steps follow."""

PROBLEM_KINDS: Final = ("claim", "pod", "node")
"""Kinds whose problems are found object by object, in the order of the audit."""

_END: Final = object()
"""Returned instead of a part after the last part of the sums."""

T = TypeVar("T")

USAGE_GROUPS: Final = ("namespace", "workload", "class")


class PageTables:
    """The rows of all views of one live cluster."""

    def __init__(self, cluster: LiveCluster, *, hidden: Mapping[str, str] | None = None) -> None:
        """Create empty tables; ``hidden``: view or ``pods`` → the permission without which it is not shown."""
        self.cluster = cluster
        self.hidden = hidden or {}
        self.views = {view: Rows(view) for view in COLUMNS}
        self.notes: dict[str, str] = {}
        """Kinds that cannot be followed now, with the reason."""

        self._facts: dict[Key, ClaimDiagnosis] = {}
        self._devices: dict[DeviceID, DeviceUsage] = {}
        self._node_usage: dict[str, Cells] = {}
        self._node_devices: dict[str, dict[DeviceID, None]] = {}
        self._users: dict[Key, frozenset[Uid]] = {}
        self._waiting: set[Key] = set()
        """Claims for which pods wait."""

        self._past_holders = PastHolders()
        self.waiting = WaitingRows(self.views["waiting"])
        self._problems: dict[str, dict[Key, tuple[Problem, ...]]] = {kind: {} for kind in PROBLEM_KINDS}
        self._problem_cells: dict[Problem, Cells] = {}
        self._sums_due = True
        self.is_complete = False
        """Whether every view has been computed at least once."""

        self._sums: Iterator[None] | None = None
        """The remaining parts of the sums that are being computed."""

        self.sums_seconds = 0.0
        """Time that the sums have taken that are being computed, or that were computed last."""

        self._told: tuple[object, ...] = ()
        """What the problems of migrations and of the controller depend on, and no object announces."""

        self._overview_due = True
        self._steps_until_overview = 0
        """Number of further steps after which the overview is updated although more steps follow."""

    @property
    def has_work(self) -> bool:
        """Report whether rows are out of date."""
        return self._sums_due or self.is_summing or self._overview_due or self.cluster.is_dirty

    @property
    def is_summing(self) -> bool:
        """Report whether some parts of the sums have been computed, and others have not."""
        return self._sums is not None

    def set_note(self, kind: str, why: str) -> None:
        """Record why a kind cannot be followed now; an empty reason removes the note."""
        self.notes.pop(kind, None)
        if why:
            self.notes[kind] = why
        self._overview_due = True

    def mark_sums_due(self) -> None:
        """Let the next update compute the views that list or sum up everything."""
        self._sums_due = True

    def update(self, *, now: datetime, limit: int = STEP, sums: bool = True, explain: bool = False) -> list[Patch]:
        """Bring rows up to date by one step, at most ``limit`` claims of them, and return what has changed.

        Without ``sums``, the views that list or sum up everything wait for a later call, unless they have been begun.
        With ``explain``, the reason of one waiting claim is computed if nothing else is left.
        """
        cluster = self.cluster
        cluster.refresh()
        told = (cluster.snapshot.leader, cluster.snapshot.descheduler, cluster.snapshot.budgets)
        if cluster.dirty_devices or cluster.dirty_pods or cluster.dirty_nodes or told != self._told:
            self._told = told
            self._sums_due = self._overview_due = True
        self._update_claims(limit)
        self._update_devices(10 * limit, now)
        self._update_pods(10 * limit)
        self._update_nodes(10 * limit, now)
        if ((sums and self._sums_due) or self.is_summing) and not (cluster.dirty_claims or cluster.dirty_pods):
            self._advance_sums(now)
        if explain and not (cluster.is_dirty or self.is_summing):
            self.waiting.explain_next(cluster)
        self._steps_until_overview -= 1
        if self._overview_due and (self._steps_until_overview <= 0 or not cluster.is_dirty):
            self._update_overview()
            self._overview_due = cluster.is_dirty  # the overview shows how much is left
            self._steps_until_overview = OVERVIEW_STEPS
        return [patch for view in self.views.values() if (patch := view.take_patch()) and patch.view not in self.hidden]

    def _update_claims(self, limit: int) -> None:
        cluster, rows = self.cluster, self.views["claims"]
        keys = list(islice(cluster.dirty_claims, limit))
        for key in keys:
            cluster.prepare_claim(key)
        for key in keys:
            cluster.dirty_claims.discard(key)  # preparing a claim marks it again
            facts = claims.explain(cluster, key)
            rows.put("/".join(key), page_rows.claim_cells(cluster, facts) if facts is not None else None)
            users = consuming_pods(cluster, key) if facts is not None else None
            if (facts, users) == (self._facts.get(key), self._users.get(key)):
                continue  # as for most claims of a round of diagnoses
            self._sums_due = self._overview_due = True
            cluster.dirty_devices |= cluster.devices_of(key)
            self._set_problems("claim", key, facts.problems if facts is not None else ())
            self._waiting.discard(key)
            if facts is None or users is None:
                self._facts.pop(key, None)
                self._users.pop(key, None)
                continue
            self._facts[key] = facts
            self._users[key] = users
            if facts.users.waiting or facts.users.gated:
                self._waiting.add(key)

    def _update_devices(self, limit: int, now: datetime) -> None:
        cluster, rows = self.cluster, self.views["devices"]
        for item in list(islice(cluster.dirty_devices, limit)):
            cluster.dirty_devices.discard(item)
            before = self._devices.get(item)
            usage = cluster.device(item)
            for node in {before.node if before is not None else "", usage.node if usage is not None else ""}:
                cluster.dirty_nodes.add(node)
            if before is not None:
                self._node_devices.get(before.node, {}).pop(item, None)
                self._past_holders.observe(before, usage, now=now)
            if usage is None:
                self._devices.pop(item, None)
                rows.put(str(item), None)
                continue
            self._devices[item] = usage
            self._node_devices.setdefault(usage.node, {})[item] = None
            holders = (facts for key in usage.holders if (facts := self._facts.get(key)) is not None)
            rows.put(str(item), page_rows.device_cells(usage, holders))

    def _update_pods(self, limit: int) -> None:
        """Find the problems of pods; pods have no rows of their own."""
        cluster = self.cluster
        for key in list(islice(cluster.dirty_pods, limit)):
            cluster.dirty_pods.discard(key)
            pod = cluster.pods.get(key)
            self._set_problems("pod", key, tuple(audit.pod_problems(cluster, pod)) if pod is not None else ())

    def _update_nodes(self, limit: int, now: datetime) -> None:
        cluster, rows = self.cluster, self.views["nodes"]
        kept: dict[str, list[str]] = {}
        for _, cells in sorted(self.views["reservations"].by_key.items()):
            if cells[1] == ReservationPhase.AVAILABLE:
                kept.setdefault(cells[2], []).append(f"{cells[0]} until {cells[-1]}" if cells[-1] else cells[0])
        for name in list(islice(chain(cluster.dirty_nodes, cluster.dirty_use - cluster.dirty_nodes), limit)):
            cluster.dirty_nodes.discard(name)
            cluster.dirty_use.discard(name)
            node = cluster.nodes.get(name)
            items = sorted(self._node_devices.get(name, ()), key=_device_order)
            problems = tuple(audit.node_problems(cluster, node, now=now)) if node is not None else ()
            if problems != self._problems["node"].get(("", name), ()):
                self._sums_due = self._overview_due = True
            self._set_problems("node", ("", name), problems)
            if node is None and not items:
                self._node_devices.pop(name, None)
                self._node_usage.pop(name, None)
                rows.put(name, None)
                continue
            usages = [self._devices[item] for item in items]
            usage = node_usage_row(name or "<any>", usages, users=self._users_of).cells
            self._node_usage[name] = usage
            devices = self.views["devices"].by_key
            letters = "".join(MAP_LETTERS[row_state("devices", devices[str(item)])] for item in items)
            held_by = ", ".join(kept.get(name, ())) or page_rows.NONE
            state = page_rows.node_state(node) if name else ""
            use = page_rows.use_cells(cluster, node, now=now) if node is not None else page_rows.NO_USE
            rows.put(name, (name or "<any>", state, *usage[1:6], held_by, letters, *use))

    def reservations_on(self, node: str) -> Iterator[str]:
        """Yield the names of the Reservations that keep room on a node, or will."""
        for name, cells in sorted(self.views["reservations"].by_key.items()):
            if cells[2] == node and cells[1] in {ReservationPhase.AVAILABLE, ReservationPhase.PENDING}:
                yield name

    def claims_of(self, namespace: str, workload: str) -> list[ClaimDiagnosis]:
        """Return the diagnoses of the claims that are reserved for a workload."""
        return [facts for key, facts in self._facts.items() if key[0] == namespace and facts.workload == workload]

    def past_holders(self, device: str) -> Iterator[str]:
        """Yield who held a device (``DRIVER/POOL/NAME``) before, the latest first, as far as these tables have seen."""
        return self._past_holders.texts(device)

    def _set_problems(self, kind: str, key: Key, problems: tuple[Problem, ...]) -> None:
        if problems:
            self._problems[kind][key] = problems
        else:
            self._problems[kind].pop(key, None)

    def _advance_sums(self, now: datetime) -> None:
        """Compute the next part of the views that list or sum up everything; begin again if they are due."""
        began = perf_counter()
        if self._sums is None:
            self._sums, self._sums_due, self.sums_seconds = self._sum_up(now), False, 0.0
        if next(self._sums, _END) is _END:
            self._sums, self._overview_due, self.is_complete = None, True, True
        self.sums_seconds += perf_counter() - began

    def _sum_up(self, now: datetime) -> Iterator[None]:
        """Compute the views that list or sum up everything; stop after each part, of about 20 ms in a large cluster.

        The row of a claim that changes waits for the part that is being computed.
        """
        cluster = self.cluster
        held = tuple(cluster.snapshot.claims) if cluster.reservations else ()
        before = self._places()
        reservations = sorted((cluster.reservations or {}).items())
        self.views["reservations"].replace(
            {name: page_rows.reservation_cells(reservation, held, now=now) for name, reservation in reservations}
        )
        cluster.dirty_nodes.update(node for node, *_ in before ^ self._places() if node != page_rows.NONE)
        yield
        nodes = dict(pod_nodes(cluster.snapshot)) if cluster.migrations else {}
        migrations = sorted((cluster.migrations or {}).items())
        self.views["migrations"].replace(
            {name: page_rows.migration_cells(migration, nodes, now=now) for name, migration in migrations}
        )
        yield
        jobs = explaining.parse_jobs(migration for _, migration in migrations)
        diagnoses = rounds(explaining.explain(job) for job in jobs)
        self.views["rounds"].replace({diagnosis.began: page_rows.round_cells(diagnosis) for diagnosis in diagnoses})
        yield
        usage: dict[str, Cells] = {}
        for part in self._usage():
            usage |= part
            yield
        self.views["usage"].replace(usage)
        yield
        workloads: dict[str, Cells] = {}
        for rows in _parts(claim_workloads(tuple(self._facts.values()), users=self._users_of)):
            workloads |= {f"{row.namespace}/{row.reference}": page_rows.workload_cells(row) for row in rows}
            yield
        self.views["workloads"].replace(workloads)
        yield
        groups = group_waiting(cluster, [self._facts[key] for key in sorted(self._waiting)])
        yield
        self.waiting.replace(cluster, groups)
        yield
        problems = list(self._all_problems())
        yield
        ranked = audit.rank(cluster, problems)
        yield
        yield from self._replace_problems(ranked)
        self._steps_until_overview = 0  # which follows in the same step: it shows the number of the problems

    def _replace_problems(self, ranked: Iterable[Problem]) -> Iterator[None]:
        """Replace the rows of problems; the cells of a problem that was there before are not computed again."""
        known, cells = self._problem_cells, dict[Problem, Cells]()
        rows: dict[str, Cells] = {}
        for part in _parts(_numbered(ranked)):
            for number, problem in part:
                cells[problem] = known.get(problem) or problem_cells(problem)
                rows[f"{problem.code}/{problem.subject}/{number}"] = cells[problem]
            yield
        self._problem_cells = cells
        self.views["problems"].replace(rows)

    def _places(self) -> set[tuple[str, ...]]:
        """Return node, name, phase and end of each Reservation: what the row of its node shows."""
        return {(cells[2], cells[0], cells[1], cells[-1]) for cells in self.views["reservations"].by_key.values()}

    def _users_of(self, claim: Key) -> frozenset[Uid]:
        return self._users.get(claim, frozenset())

    def _all_problems(self) -> Iterator[Problem]:
        for kind in PROBLEM_KINDS:
            for _, problems in sorted(self._problems[kind].items()):
                yield from problems
        yield from pools.problems(self.cluster)
        yield from colocation_problems.config_problems(self.cluster)
        yield from audit.reservation_problems(self.cluster)
        yield from audit.namespace_problems(self.cluster)

    def _usage(self) -> Iterator[dict[str, Cells]]:
        """Yield the rows of all groups, in parts."""
        known = self._devices.values()
        offered = sum(not device.overlaps_held for device in known) if any(device.offered for device in known) else 0
        allocated = [facts for facts in self._facts.values() if facts.allocated]
        for by in USAGE_GROUPS:
            groups: dict[str, list[ClaimDiagnosis]] = {}
            for claims_of_part in _parts(allocated):
                group_claims(self.cluster, claims_of_part, by=by, groups=groups)
                yield {}
            for names in _parts(sorted(groups)):
                rows = (
                    claim_usage_row(by, group_name, groups[group_name], offered, users=self._users_of)
                    for group_name in names
                )
                yield {f"{by}/{row.name}": (by, row.name, "", *row.cells[1:]) for row in rows}
        usage = self._node_usage.values() if "nodes" not in self.hidden else ()
        yield {f"node/{cells[0]}": ("node", *cells[:6], cells[-1]) for cells in usage if cells[1] != "0"}

    def _update_overview(self) -> None:
        cluster, snapshot = self.cluster, self.cluster.snapshot
        rows: dict[str, Cells] = {}

        def put(section: str, name: str, value: object) -> None:
            rows[f"{section}/{name}"] = (section, name, str(value))

        for kind, objects in (("nodes", cluster.nodes), ("pods", cluster.pods)):
            if kind not in self.hidden:
                put("cluster", kind, len(objects))
        put("cluster", "claims", len(self._facts))
        put("cluster", "server", snapshot.server)
        put("controller", snapshot.leader.presence.value, describer.controller_text(snapshot.leader))
        put(
            "descheduler",
            snapshot.descheduler.presence.value,
            describer.lease_text(snapshot.descheduler, "descheduler"),
        )
        for gap in snapshot.gaps:
            put("gap", gap.resource, gap.why)
        for section, texts in (("stale", self.notes), ("absent", self._absent()), ("denied", self.hidden)):
            for name, text in texts.items():
                put(section, name, text)
        for view in STATE_COLUMNS:
            if view not in self.hidden:
                for state, count in sorted(self.views[view].states.items()):
                    put(view, state, count)
        put("cluster", "waiting", len(self._waiting))
        put("cluster", "left", len(cluster.dirty_claims) + len(cluster.dirty_pods))
        self.views["overview"].replace(rows)

    def _absent(self) -> dict[str, str]:
        """Return the kinds that the API server does not serve."""
        served = {"reservations": self.cluster.reservations, "migrations": self.cluster.migrations}
        missing = [kind for kind, objects in served.items() if objects is None and kind not in self.hidden]
        return dict.fromkeys(missing, "the API server does not serve this kind")


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield objects in lists of `ROWS_PER_PART`; the last list may be shorter."""
    rest = iter(items)
    while part := list(islice(rest, ROWS_PER_PART)):
        yield part


def _numbered(problems: Iterable[Problem]) -> Iterator[tuple[int, Problem]]:
    """Yield problems with their numbers among those of the same code and object."""
    seen: Counter[tuple[str, str]] = Counter()
    for problem in problems:
        seen[problem.code, str(problem.subject)] += 1
        yield seen[problem.code, str(problem.subject)], problem


def _device_order(item: DeviceID) -> tuple[str, str, tuple[int, str]]:
    """Sort gpu-2 before gpu-10."""
    return (item.driver, item.pool, (len(item.device), item.device))
