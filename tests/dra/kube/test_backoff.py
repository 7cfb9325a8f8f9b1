from dra.kube.backoff import JITTER, Backoff
from tests.dra.kube.virtual import seeded


def test_delays_double_up_to_the_cap_and_are_drawn_from_the_upper_half():
    backoff = Backoff(base=1.0, cap=5.0, random=seeded(1))
    for ceiling in [1.0, 2.0, 4.0, 5.0, 5.0]:
        assert ceiling / 2 <= backoff.next() <= ceiling


def test_two_clients_do_not_come_back_together():
    one, two = Backoff(random=seeded(1)), Backoff(random=seeded(2))
    assert [one.next() for _ in range(5)] != [two.next() for _ in range(5)]


def test_success_starts_over():
    backoff = Backoff(base=1.0, cap=60.0)
    for _ in range(2000):  # no overflow, however long the server is away
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 1.0


def test_the_chance_of_a_process_can_be_repeated():
    runs = []
    for _ in range(2):
        JITTER.seed(1)
        runs.append([Backoff().next() for _ in range(5)])
    assert runs[0] == runs[1]
