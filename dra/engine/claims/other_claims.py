"""The other claims of a pod that names several: the pod is ungated once each of them is ready for the pod.

Otherwise the scheduler would take up a pod that it cannot bind, while this project's gate could have kept the pod back.
"""

from collections.abc import Mapping

from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.scheduling_gates import openers_with_turn
from dra.engine.claims.window import UNLISTED
from dra.engine.instants import Instant
from dra.model.meta import Key


def waits_for_other_claim(consumer: Consumer, key: Key, *, records: Mapping[Key, ClaimState], now: Instant) -> bool:
    """Return whether a claim of the pod other than ``key`` is not ready for the pod.

    Such a claim neither lists the pod, nor can the pod be its opener now.
    """
    for name in consumer.claims:
        other = (consumer.namespace, name)
        record = records.get(other)
        if other == key or record is None or record.claim is None:
            continue
        claim = record.claim
        if claim.generated_for == consumer.uid or claim.metadata.deleting:
            continue
        if claim.status.allocation is None:
            if _another_opens(record, consumer, now=now):
                return True
        elif not consumer.pod_group and record.entry_histories.get(consumer.uid, UNLISTED).listed_since is None:
            reservation = record.reservation  # gangs are never listed, nor are pods beside an any-pod entry
            if reservation is None or not (reservation.native and reservation.any_pod):
                return True
    return False


def _another_opens(record: ClaimState, consumer: Consumer, *, now: Instant) -> bool:
    """Return whether an opener outside the pod's gang has its turn; the pods of a gang open a claim together."""
    openers = openers_with_turn(record.stages[Stage.WAITING].values(), now=now)
    return any(not c.gang or c.gang != consumer.gang for c in openers)
