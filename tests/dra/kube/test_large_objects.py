import pytest

from dra.kube.codec import ObjectIdentity
from dra.kube.large_objects import LargeObjects
from dra.kube.object_sizes import NAMESPACE_MEMORY_MAX, UNCOUNTED_MEMORY_MAX
from dra.kube.resources import CLAIMS, PODS

HALF = NAMESPACE_MEMORY_MAX // 2


def identity(name, *, uid="u"):
    return ObjectIdentity(name=name, namespace="evil", uid=uid)


@pytest.fixture
def account():
    return LargeObjects()


@pytest.fixture
def ledger(account):
    return account.ledger(CLAIMS)


def admitted(ledger, name, *, namespace="evil", size=HALF):
    return ledger.admit((namespace, name), namespace=namespace, size=size)


def test_a_namespace_has_room_for_so_much_and_no_more(ledger):
    assert [admitted(ledger, name) for name in "abc"] == [True, True, False]
    assert ledger.kept_bytes == 2 * HALF


def test_other_namespaces_have_room_of_their_own(ledger):
    assert admitted(ledger, "a", size=NAMESPACE_MEMORY_MAX)
    assert admitted(ledger, "a", namespace="good")


def test_an_object_that_changes_counts_once(ledger):
    assert all(admitted(ledger, "a") for _ in range(5))
    assert ledger.kept_bytes == HALF


def test_an_object_that_grows_too_large_keeps_the_room_of_its_last_state_which_stays_in_memory(ledger):
    """Otherwise a user fills the memory: object after object grows to the limit, and then beyond."""
    admitted(ledger, "a")
    assert not admitted(ledger, "a", size=3 * HALF)
    ledger.refuse(identity("a"), "too large")
    assert ledger.kept_bytes == HALF
    assert not admitted(ledger, "b", size=2 * HALF)
    ledger.forget(("evil", "a"))
    assert admitted(ledger, "b", size=2 * HALF)


def test_the_room_of_a_deleted_object_is_free(ledger):
    admitted(ledger, "a", size=2 * HALF)
    ledger.forget(("evil", "a"))
    assert admitted(ledger, "b", size=2 * HALF)


def test_a_list_frees_the_room_of_what_it_has_not_shown(ledger):
    admitted(ledger, "a")
    ledger.refuse(identity("b"), "too large")
    ledger.refuse(identity("c"), "too large")
    ledger.retain({}, {("evil", "c")})
    assert (ledger.kept_bytes, ledger.refused) == (0, 1)


def test_a_refused_object_is_reported_once(account, ledger):
    told = []
    account.report = lambda resource, found, reason: told.append((resource, found.name, reason))
    for _ in range(3):
        ledger.refuse(identity("a"), "too large")
    ledger.refuse(identity("a", uid="successor"), "too large")
    assert told == [(CLAIMS, "a", "too large")] * 2


def test_an_object_that_is_small_again_is_reported_again(account, ledger):
    told = []
    account.report = lambda *_: told.append(1)
    ledger.refuse(identity("a"), "too large")
    ledger.forget(("evil", "a"))
    ledger.refuse(identity("a"), "too large")
    assert len(told) == 2


def test_numbers_are_by_kind_of_all_informers(account, ledger):
    another, pods = account.ledger(CLAIMS), account.ledger(PODS)
    admitted(ledger, "a")
    admitted(another, "a")
    pods.refuse(identity("p"), "too large")
    assert account.kept_bytes() == {CLAIMS.label: 2 * HALF, PODS.label: 0}
    assert account.refused() == {CLAIMS.label: 0, PODS.label: 1}
    account.close(another)
    assert account.kept_bytes()[CLAIMS.label] == HALF


def test_objects_that_take_no_more_than_small_ones_do_not_count(ledger):
    assert all(admitted(ledger, str(number), size=UNCOUNTED_MEMORY_MAX) for number in range(1_000))
    assert ledger.kept_bytes == 0
    admitted(ledger, "a")
    admitted(ledger, "a", size=UNCOUNTED_MEMORY_MAX)
    assert ledger.kept_bytes == 0, "it has become small"
