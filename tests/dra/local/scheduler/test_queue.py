from dra.local.scheduler.queue import FLUSH_EVERY, Need, Queue
from dra.model.meta import ObjectMeta, Uid
from dra.model.placement import PlacedPod

UNEVEN = 495.43508709194094
"""To which adding thirty, and taking it away again, does not give thirty."""


def test_when_it_is_worth_asking_again_asking_changes_something():
    """Else the scheduler's loop would never wait: simulation seed 5."""
    queue = Queue()
    queue.put(PlacedPod(metadata=ObjectMeta(name="a", namespace="ml", uid=Uid("uid-a"))), now=UNEVEN)
    entry = queue.pop(now=UNEVEN)
    queue.wait(entry, Need.NODE, now=UNEVEN)
    assert queue.next_at(now=UNEVEN) == UNEVEN + FLUSH_EVERY
    assert queue.pop(now=UNEVEN + FLUSH_EVERY) is None
    assert queue.next_at(now=UNEVEN + FLUSH_EVERY) > UNEVEN + FLUSH_EVERY
