"""What a turn of `bench.placed` took, by process and by request, and the tables of it."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

RARE: Final = 0.1
"""Requests per Reservation below which a kind of request is not listed."""

SHARED: Final = ("apiserver", "etcd", "controller_manager", "kwok")
"""Components of the cluster that both sides use, whose time is reported besides."""


class Turn(NamedTuple):
    """What one side took for the Reservations of a round."""

    rate: float
    """Reservations a second, from the first creation until each is Available."""
    costs: dict[str, float]
    """ms of a core per Reservation, by process."""
    costs_until_placed: dict[str, float]
    """The part of these until each Reservation was Available: Events and deletions of placeholders may follow."""
    requests: dict[str, float]
    """Requests per Reservation, by who sent what."""

    def own_cost(self) -> float:
        """Return what the side's own processes took."""
        return sum(cost for name, cost in self.costs.items() if name not in SHARED)


def requests(audit: Path, offset: int) -> Counter[str]:
    """Return how often each user has sent each request, from an offset of the log on."""
    counts: Counter[str] = Counter()
    with audit.open("rb") as log:
        log.seek(offset)
        for line in log:
            event = json.loads(line)
            user = event["user"]["username"].rpartition(":")[2]
            if user in {"admin", "kwok", "apiserver"} or "objectRef" not in event:
                continue
            ref = event["objectRef"]
            resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
            status = event.get("responseStatus", {}).get("code", 200)
            failed = f" ({status})" if status >= HTTPStatus.BAD_REQUEST else ""
            counts[f"{user}: {event['verb']} {resource}{failed}"] += 1
    return counts


def table(turns: dict[tuple[int, str], list[Turn]]) -> list[str]:
    """Return the rows of the tables: rates and costs by limit, then the requests of each side."""
    head = "own processes, ms of a core per Reservation"
    lines = [
        f"| requests/s | side | Reservations/s | in each round | {head} | of these | API server, etcd |",
        "|---:|---|---:|---|---:|---|---:|",
    ]
    for (limit, side), seen in turns.items():
        median = {name: statistics.median(turn.costs[name] for turn in seen) for name in seen[0].costs}
        own = ", ".join(f"{name} {cost:.1f}" for name, cost in median.items() if name not in SHARED)
        cells = (
            f"{limit}",
            side,
            f"{statistics.median(turn.rate for turn in seen):.1f}",
            ", ".join(f"{turn.rate:.1f}" for turn in seen),
            f"{statistics.median(turn.own_cost() for turn in seen):.1f}",
            own,
            f"{median['apiserver']:.1f}, {median['etcd']:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| side | requests per Reservation, at least one for every tenth |", "|---|---|"]
    for side in dict.fromkeys(side for _, side in turns):
        seen = [turn for (_, name), some in turns.items() if name == side for turn in some]
        names = dict.fromkeys(name for turn in seen for name in turn.requests)
        counts = {name: statistics.median(turn.requests.get(name, 0.0) for turn in seen) for name in names}
        lines.append(f"| {side} | {', '.join(f'{c:.2f} {name}' for name, c in counts.items() if c >= RARE)} |")
    return lines
