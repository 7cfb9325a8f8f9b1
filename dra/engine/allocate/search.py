"""Finds devices for claims on one node, if there are any.

A depth-first search over all requests of all claims, alternatives and devices in their order: the first solution is the
one with the best alternatives of the first requests. It is complete: where it refuses, there is none. Three rules keep
it from trying everything:

1. A request that has fewer devices left than it wants fails before any is picked.
2. Devices of a request are picked in ascending order: a set of them is one solution, not one for each permutation.
3. A device that is interchangeable with one that has just failed fails, too. Two are, when no request, constraint,
   taint or counter of this search can tell them apart.

What is left can still be exponential (constraints over many unlike devices); after `STEPS_MAX` picks it gives up and
says so, which counts as a refusal.

Devices that report binding conditions are refused unless the caller names them as usable (``conditional``): nobody here
could wait for such a condition, but rule 9 only asks whether a scheduler could allocate the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from dra.cel.devices import SelectorError
from dra.engine.allocate.inventory import Candidate, Offer, Pool, State
from dra.engine.allocate.shares import Part, Shares, fits, part
from dra.engine.allocate.wanted import RESULTS_MAX, Ask, Constraint, Wanted
from dra.engine.ledger import Item, Ledger

STEPS_MAX: Final = 20_000
"""Picks after which a search gives up: some tenths of a second."""


_NOTHING: Final = Fraction(0)
_WHOLE: Final[Part] = {}


class Refusal(NamedTuple):
    """Why there is no solution."""

    text: str


class Pick(NamedTuple):
    """One device, or a part of one, for one request."""

    ask: Ask
    candidate: Candidate
    part: Part
    """How much of it, if it is shared."""


Solution: TypeAlias = tuple[tuple[Pick, ...], ...]
"""For each claim its picks, in the order of its requests."""


class _GaveUpError(Exception):
    """It takes too long."""


def allocate(
    wanted: Sequence[Wanted],
    *,
    offer: Offer,
    ledger: Ledger,
    shares: Shares,
    conditional: bool = False,
    steps: int = STEPS_MAX,
) -> Solution | Refusal:
    """Return devices of one node for all claims at once, or why there are none.

    `ledger` says which devices somebody has, `shares` how much is given away of those that are shared. `conditional`
    admits devices with binding conditions; after `steps` picks the search gives up, which counts as a refusal.
    """
    search = _Search(wanted, offer, ledger, shares, conditional=conditional, steps=steps)
    try:
        if search.solve(0):
            return search.solution()
    except (SelectorError, _UnsuitableError) as error:
        return Refusal(str(error))
    except _GaveUpError:
        return Refusal(f"gave up after {steps} steps")
    return Refusal(str(search.error) if search.error is not None else "cannot allocate all claims")


class _UnsuitableError(Exception):
    """Nothing can be allocated here, whatever else is chosen."""


@dataclass(slots=True)
class _Step:
    """One request of one claim."""

    claim: int
    alternatives: tuple[Ask, ...]


class _Search:
    """The state of one search: what is picked so far."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        offer: Offer,
        ledger: Ledger,
        shares: Shares,
        *,
        conditional: bool,
        steps: int,
    ) -> None:
        self._wanted = wanted
        self._conditional = conditional
        self._steps_max = steps
        self._offer = offer
        self._ledger = ledger
        self._shares = shares
        self._steps = [_Step(i, each) for i, claim in enumerate(wanted) for each in claim.requests]
        self._constraints = [_Values(i, c) for i, claim in enumerate(wanted) for c in claim.constraints]
        self._covering = {
            ask: tuple(c for c in self._constraints if c.claim == step.claim and c.constraint.covers(ask))
            for step in self._steps
            for ask in step.alternatives
        }
        self._meant: dict[Ask, list[Candidate]] = {}
        self._picks: list[tuple[int, Pick]] = []
        self._taken: set[Item] = set()
        self._used: set[tuple[int, Item]] = set()
        """Also with adminAccess, a claim has a device once."""

        self._parts: dict[tuple[Ask, Candidate], Part | None] = {}
        self._given: dict[Item, dict[str, Fraction]] = {}
        """What is picked of shared devices so far."""

        self._left: dict[Pool, dict[tuple[str, str], Fraction]] = {}
        """What is left of the shared counters of pools."""

        self._tried = 0
        self.error: SelectorError | None = None
        """The first device of which nobody can tell whether it is asked for; such devices are left alone."""

    def solution(self) -> Solution:
        """Return what was found."""
        return tuple(tuple(p for claim, p in self._picks if claim == i) for i in range(len(self._wanted)))

    def solve(self, index: int) -> bool:
        """Find devices for the requests from `index` on."""
        if index == len(self._steps):
            return True
        step = self._steps[index]
        return any(self._choose(index, ask) for ask in step.alternatives)

    def _choose(self, index: int, ask: Ask) -> bool:
        """Find devices for one request and all after it."""
        claim, count = self._steps[index].claim, ask.count
        meant = self._candidates(ask)
        if count is None:
            self._check_pools(ask)
            count = len(meant)
            if count == 0:
                return False
        if sum(1 for c, _ in self._picks if c == claim) + count > RESULTS_MAX:
            return False
        return self._pick(index, ask, [c for c in meant if self._possible(c, ask, claim)], count)

    def _pick(self, index: int, ask: Ask, possible: Sequence[Candidate], count: int) -> bool:
        """Pick `count` more of the possible devices."""
        if count == 0:
            return self.solve(index + 1)
        claim = self._steps[index].claim
        failed: set[tuple[object, ...]] = set()
        again = ask.count is not None and not ask.admin and any(_shared(c) for c in possible)
        for i in range(len(possible) if again else len(possible) - count + 1):
            candidate = possible[i]
            if failed and self._look(candidate) in failed:
                continue
            self._tried += 1
            if self._tried > self._steps_max:
                raise _GaveUpError
            self._take(candidate, ask, claim)
            next_one = i if again and _shared(candidate) else i + 1
            rest = [c for c in possible[next_one:] if self._possible(c, ask, claim)] if count > 1 else ()
            if self._pick(index, ask, rest, count - 1):
                return True
            self._put_back(candidate, ask, claim)
            failed.add(self._look(candidate))
        return False

    def _candidates(self, ask: Ask) -> list[Candidate]:
        """Return all devices that a request asks for, whether they can be had or not."""
        known = self._meant.get(ask)
        if known is None:
            known = self._meant[ask] = [c for s in self._offer.shares for c in s.candidates if self._means(ask, c)]
        return known

    def _means(self, ask: Ask, candidate: Candidate) -> bool:
        try:
            return ask.means(candidate)
        except SelectorError as error:
            if ask.count is None:
                raise
            self.error = self.error or error
            return False

    def _check_pools(self, ask: Ask) -> None:
        for share in self._offer.shares:
            if share.state is not State.COMPLETE:
                why = "currently being updated" if share.state is State.INCOMPLETE else "currently invalid"
                pool = "/".join(share.pool.key)
                raise _UnsuitableError(f"request {ask.name}: asks for all devices, but resource pool {pool} is {why}")

    def _possible(self, candidate: Candidate, ask: Ask, claim: int) -> bool:
        """Whether a device can be had beside what is picked so far."""
        item, device = candidate.item, candidate.device
        if device.binding_conditions and not self._conditional:
            return False
        if (claim, item) in self._used and (ask.admin or not _shared(candidate)):
            return False
        if device.taints and not ask.tolerates(device.taints):
            return False
        if not ask.admin and not self._available(candidate, ask):
            return False
        return all(values.admit(candidate) for values in self._covering[ask])

    def _available(self, candidate: Candidate, ask: Ask) -> bool:
        """Whether nobody else has the device, or enough of it is left."""
        item = candidate.item
        if item in self._taken:
            return False
        if candidate.device.consumes_counters and item not in self._given and not self._fits(candidate):
            return False
        wanted = self._part(candidate, ask)
        if wanted is None:
            return False
        if not _shared(candidate):
            return self._ledger.free(item)
        return self._ledger.holder(item) is None and fits(candidate.device, wanted, self._gone(item))

    def _part(self, candidate: Candidate, ask: Ask) -> Part | None:
        """Return how much of a device a request takes."""
        if not ask.shares and not _shared(candidate):
            return _WHOLE
        key = (ask, candidate)
        if key not in self._parts:
            self._parts[key] = part(candidate.device, ask.shares, driver=candidate.item.driver)
        return self._parts[key]

    def _gone(self, item: Item) -> Part:
        """Return what is given away of a shared device."""
        used, given = self._shares.used(item), self._given.get(item)
        return {n: used.get(n, _NOTHING) + (given or {}).get(n, _NOTHING) for n in {*used, *given}} if given else used

    def _take(self, candidate: Candidate, ask: Ask, claim: int) -> None:
        wanted = _WHOLE if ask.admin else self._part(candidate, ask) or _WHOLE
        self._picks.append((claim, Pick(ask, candidate, wanted)))
        for values in self._covering[ask]:
            values.push(candidate)
        if ask.admin or not _shared(candidate):
            self._used.add((claim, candidate.item))
        if ask.admin:
            return
        if _shared(candidate):
            self._give(candidate, wanted, 1)
        else:
            self._taken.add(candidate.item)
            self._count(candidate, -1)

    def _put_back(self, candidate: Candidate, ask: Ask, claim: int) -> None:
        _, pick = self._picks.pop()
        for values in self._covering[ask]:
            values.pop()
        if ask.admin or not _shared(candidate):
            self._used.discard((claim, candidate.item))
        if ask.admin:
            return
        if _shared(candidate):
            self._give(candidate, pick.part, -1)
        else:
            self._taken.discard(candidate.item)
            self._count(candidate, 1)

    def _give(self, candidate: Candidate, wanted: Part, sign: int) -> None:
        """Add a part to what is picked, or take it back; the first one draws on the counters, for all of them."""
        given = self._given.get(candidate.item)
        if given is None:
            given = self._given[candidate.item] = {"": _NOTHING}
            if self._ledger.free(candidate.item):
                self._count(candidate, -1)
        given[""] += sign
        for name, amount in wanted.items():
            given[name] = given.get(name, _NOTHING) + sign * amount
        if not given[""]:
            del self._given[candidate.item]
            if self._ledger.free(candidate.item):
                self._count(candidate, 1)

    def _look(self, candidate: Candidate) -> tuple[object, ...]:
        """Return all that the rest of this search can see of a device: equal looks are interchangeable."""
        device, item = candidate.device, candidate.item
        counted = (
            (self._pool(candidate), tuple(sorted(candidate.consumption.items()))) if device.consumes_counters else ()
        )
        return (
            self._ledger.free(item) and item not in self._taken,
            tuple((i, item) in self._used for i in range(len(self._wanted))),
            tuple(self._means(ask, candidate) for step in self._steps for ask in step.alternatives if ask.count),
            tuple(candidate in self._candidates(a) for s in self._steps for a in s.alternatives if a.count is None),
            tuple(candidate.attribute(values.constraint.attribute) for values in self._constraints),
            tuple((t.key, t.value, t.effect) for t in device.taints or ()),
            counted,
            bool(device.binding_conditions),
            device.capacity and repr(sorted(device.capacity.items())),
            _shared(candidate) and repr(sorted(self._gone(item).items())),
        )

    def _fits(self, candidate: Candidate) -> bool:
        if not self._ledger.free(candidate.item):
            return True  # it has taken its part already
        left = self._counters(candidate)
        return all(left.get(counter, _NOTHING) >= amount for counter, amount in candidate.consumption.items())

    def _count(self, candidate: Candidate, sign: int) -> None:
        if candidate.device.consumes_counters:
            left = self._counters(candidate)
            for counter, amount in candidate.consumption.items():
                left[counter] = left.get(counter, _NOTHING) + sign * amount

    def _counters(self, candidate: Candidate) -> dict[tuple[str, str], Fraction]:
        """Return what is left of the counters of a device's pool: partitions that are held have taken their part."""
        pool = self._pool(candidate)
        known = self._left.get(pool)
        if known is None:
            known = self._left[pool] = dict(pool.counters)
            for each in pool.candidates:
                if each.device.consumes_counters and not self._ledger.free(each.item):
                    for counter, amount in each.consumption.items():
                        known[counter] = known.get(counter, _NOTHING) - amount
        return known

    def _pool(self, candidate: Candidate) -> Pool:
        key = (candidate.item.driver, candidate.item.pool)
        return next(share.pool for share in self._offer.shares if share.pool.key == key)


def _shared(candidate: Candidate) -> bool:
    return candidate.device.allow_multiple_allocations


class _Values:
    """The attribute that a constraint is about, of the devices picked so far."""

    def __init__(self, claim: int, constraint: Constraint) -> None:
        self.claim = claim
        self.constraint = constraint
        self._values: list[tuple[str, object]] = []

    def admit(self, candidate: Candidate) -> bool:
        """Whether a device satisfies the constraint beside the others; one without the attribute never does."""
        value = candidate.attribute(self.constraint.attribute)
        if value is None:
            return False
        if self.constraint.distinct:
            return value not in self._values
        return not self._values or self._values[0] == value

    def push(self, candidate: Candidate) -> None:
        """The device is picked."""
        value = candidate.attribute(self.constraint.attribute)
        assert value is not None, "what has no value is not admitted"  # noqa: S101
        self._values.append(value)

    def pop(self) -> None:
        """The last one is not picked after all."""
        self._values.pop()
