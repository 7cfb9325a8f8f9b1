"""The shared counters of a pool (KEP-4815), and the devices that lack some because others are held.

Partitions of one card consume counters of the card, as the whole card does. So a device that no claim holds cannot be
allocated while held devices of its pool have used up a counter that it consumes.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from dra.engine.allocator.resource_slice_tracker import CandidateDevice, CounterAmounts, Pool
from dra.engine.devices.ledger import Ledger

_ZERO: Final = Fraction(0)


def counters_left(pool: Pool, ledger: Ledger) -> dict[tuple[str, str], Fraction]:
    """Return the amounts left of all counters of a pool; negative where held devices consume more than there is."""
    left = dict(pool.counters)
    for consumer in _held_consumers(pool, ledger):
        for counter, amount in consumer.consumed_counters.items():
            left[counter] = left.get(counter, _ZERO) - amount
    return left


def suffices(left: Mapping[tuple[str, str], Fraction], candidate: CandidateDevice) -> bool:
    """Return whether a device can be allocated with what is left of the counters of its pool.

    As in kube-scheduler's allocator, no device of a pool can be allocated while any counter of the pool is overdrawn.
    """
    wanted: CounterAmounts = candidate.consumed_counters
    return all(amount >= wanted.get(counter, _ZERO) for counter, amount in left.items())


def blocking_devices(pool: Pool, ledger: Ledger, candidate: CandidateDevice) -> tuple[CandidateDevice, ...]:
    """Return the held devices whose counters a device lacks; none if it is held itself, or lacks no counter."""
    if not candidate.device.consumes_counters or not ledger.is_free(candidate.item):
        return ()
    left, wanted = counters_left(pool, ledger), candidate.consumed_counters
    lacking = {counter for counter, amount in left.items() if amount < wanted.get(counter, _ZERO)}
    if not lacking:
        return ()
    held = _held_consumers(pool, ledger)
    return tuple(consumer for consumer in held if not lacking.isdisjoint(consumer.consumed_counters))


def _held_consumers(pool: Pool, ledger: Ledger) -> Iterator[CandidateDevice]:
    return (
        candidate
        for candidate in pool.candidates
        if candidate.device.consumes_counters and not ledger.is_free(candidate.item)
    )
