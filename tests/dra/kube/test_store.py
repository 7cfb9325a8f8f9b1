import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.kube.codec import ObjectIdentity
from dra.kube.store import Deleted, ServerRestored, Store, Synced, Upserted
from dra.model.meta import ObjectMeta, PartialObjectMetadata
from tests.violations import for_each_case


def obj(name="a", *, uid="1", version=1, labels=None):
    meta = ObjectMeta(name=name, namespace="ml", uid=uid, resource_version=str(version), labels=labels)
    return PartialObjectMetadata(metadata=meta)


def identity(each):
    meta = each.metadata
    return ObjectIdentity(
        name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
    )


def told(store, *calls):
    """Return what the calls, (method, object), made the store tell, in short."""
    out = []
    for method, given_object in calls:
        getattr(store, method)(given_object, out)
    return [short(change) for change in out]


def short(change):
    match change:
        case Upserted(obj=found):
            return f"+{found.metadata.name}{found.metadata.uid}@{found.metadata.resource_version}"
        case Deleted(obj=found, certain=certain):
            sign = "-" if certain else "?"
            return f"{sign}{found.metadata.name}{found.metadata.uid}@{found.metadata.resource_version}"
        case Synced(resource_version=version, first=first):
            return f"synced@{version}{'' if first else ' again'}"
        case ServerRestored(subject=subject, version=version, known=known):
            return f"{subject}: {version} after {known}"


def relist(store, *objects, version=100, unreadable=()):
    out = []
    store.begin_list()
    store.add_page(objects, [identity(each) for each in unreadable], out)
    store.end_list(str(version), out)
    return [short(change) for change in out]


@for_each_case(
    [
        pytest.param([("upsert", obj())], ["+a1@1"], id="new"),
        pytest.param([("upsert", obj()), ("upsert", obj(version=2))], ["+a1@1", "+a1@2"], id="changed"),
        pytest.param([("upsert", obj(version=2)), ("upsert", obj(version=1))], ["+a1@2"], id="older-news"),
        pytest.param([("upsert", obj(version=9)), ("upsert", obj(version=10))], ["+a1@9", "+a1@10"], id="as-numbers"),
        pytest.param([("upsert", obj()), ("upsert", obj())], ["+a1@1"], id="no-news"),
        pytest.param([("upsert", obj()), ("delete", obj(version=2))], ["+a1@1", "-a1@2"], id="final-state-is-told"),
        pytest.param([("upsert", obj()), ("delete", obj())], ["+a1@1", "-a1@1"], id="deleted-in-its-last-version"),
        pytest.param([("upsert", obj(version=3)), ("delete", obj(version=2))], ["+a1@3"], id="older-deletion"),
        pytest.param([("delete", obj())], [], id="unknown-deleted"),
        pytest.param(
            [("upsert", obj()), ("upsert", obj(uid="2", version=5))], ["+a1@1", "-a1@1", "+a2@5"], id="replaced"
        ),
        pytest.param(
            [("upsert", obj(uid="2", version=5)), ("upsert", obj(version=4))], ["+a2@5"], id="predecessor-comes-late"
        ),
        pytest.param(
            [("upsert", obj(uid="2", version=5)), ("delete", obj(version=4))],
            ["+a2@5"],
            id="deletion-of-predecessor-comes-late",
        ),
        pytest.param(
            [("upsert", obj()), ("delete", obj(uid="2", version=5))],
            ["+a1@1", "-a1@1"],
            id="deletion-of-a-successor-never-seen",
        ),
        pytest.param(
            [("upsert", obj(version="x")), ("upsert", obj(version="a"))], ["+a1@x", "+a1@a"], id="versions-of-no-order"
        ),
    ]
)
def test_what_is_told_is_what_has_changed(calls, changes):
    assert told(Store(), *calls) == changes


def test_what_is_not_kept_is_not_told():
    store = Store(keep=lambda each: each.metadata.labels is not None)
    assert told(store, ("upsert", obj()), ("delete", obj(version=2))) == []
    assert not store.objects


def test_what_is_not_kept_any_more_leaves_but_is_not_certainly_gone():
    store = Store(keep=lambda each: each.metadata.labels is not None)
    assert told(store, ("upsert", obj(labels={})), ("upsert", obj(version=2))) == ["+a1@1", "?a1@2"]
    assert not store.objects


def test_a_successor_that_is_not_kept_still_means_that_the_old_one_is_gone():
    store = Store(keep=lambda each: each.metadata.labels is not None)
    calls = [("upsert", obj(labels={})), ("upsert", obj(uid="2", version=2))]
    assert told(store, *calls) == ["+a1@1", "-a1@1"]
    assert not store.objects


def test_with_a_selector_a_deletion_may_only_be_a_leaving():
    store = Store(has_selectors=True)
    assert told(store, ("upsert", obj()), ("delete", obj(version=2))) == ["+a1@1", "?a1@2"]
    store = Store(has_selectors=True)
    relist(store, obj())
    assert relist(store, version=200) == ["?a1@1", "synced@200 again"]


def test_a_list_tells_only_what_differs():
    store = Store()
    assert relist(store, obj("a"), obj("b"), obj("c")) == ["+a1@1", "+b1@1", "+c1@1", "synced@100"]
    again = relist(store, obj("a"), obj("b", version=7), obj("c", uid="2", version=8), obj("d", version=9), version=200)
    assert again == ["+b1@7", "-c1@1", "+c2@8", "+d1@9", "synced@200 again"]


def test_what_a_list_does_not_show_is_gone():
    store = Store()
    relist(store, obj("a"), obj("b"))
    assert relist(store, obj("b"), version=200) == ["-a1@1", "synced@200 again"]
    assert list(store.objects) == [("ml", "b")]


def test_a_list_is_believed_even_when_its_versions_are_lower():
    store = Store()
    told(store, ("upsert", obj(version=500)))
    assert relist(store, obj(version=20)) == ["ml/a: 20 after 500", "+a1@20", "synced@100"]
    assert told(store, ("upsert", obj(version=21))) == ["+a1@21"]


def test_an_older_object_of_that_name_proves_a_restored_backup_as_well():
    store = Store()
    told(store, ("upsert", obj(version=500)))
    assert relist(store, obj(uid="0", version=20)) == ["ml/a: 20 after 500", "-a1@500", "+a0@20", "synced@100"]


@pytest.mark.parametrize(
    "deleted",
    [
        pytest.param(lambda store: told(store, ("delete", obj(version=510))), id="by-the-watch"),
        pytest.param(lambda store: relist(store, version=510), id="by-a-list"),
    ],
)
def test_an_object_that_is_there_again_proves_a_restored_backup_as_well(deleted):
    store = Store()
    told(store, ("upsert", obj(version=500)))
    deleted(store)
    first, *others = relist(store, obj(version=500), version=600)
    assert first.startswith("ml/a: 500 after 5")
    assert others[0] == "+a1@500"
    assert len(others) == 2


def test_an_object_that_only_left_what_is_looked_at_may_come_back():
    store = Store(has_selectors=True)
    told(store, ("upsert", obj(version=500)), ("delete", obj(version=510)))
    assert relist(store, obj(version=520)) == ["+a1@520", "synced@100"]


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(obj(version=500), id="the-same"),
        pytest.param(obj(version=501), id="newer"),
        pytest.param(obj(uid="2", version=520), id="another-object"),
        pytest.param(obj(version="x"), id="versions-of-no-order"),
    ],
)
def test_anything_else_proves_no_restored_backup(shown):
    store = Store()
    told(store, ("upsert", obj(version=500)))
    assert not [line for line in relist(store, shown) if "after" in line]


def test_a_list_that_starts_over_forgets_what_it_had_shown():
    store = Store()
    out = []
    relist(store, obj("a"), obj("b"))
    store.begin_list()
    store.add_page([obj("a")], [], out)
    assert relist(store, obj("b"), version=200) == ["-a1@1", "synced@200 again"]


def test_an_object_that_cannot_be_read_keeps_its_last_known_state():
    store = Store()
    relist(store, obj("a"))
    assert relist(store, unreadable=[obj("a", version=2)], version=200) == ["synced@200 again"]
    assert store.objects["ml", "a"].metadata.resource_version == "1"


def test_an_unreadable_successor_does_not_keep_its_predecessor():
    store = Store()
    relist(store, obj("a"))
    assert relist(store, unreadable=[obj("a", uid="2", version=2)], version=200) == ["-a1@1", "synced@200 again"]


@pytest.mark.parametrize(
    ("deleted", "changes"),
    [
        pytest.param(obj("a", version=2), ["-a1@1"], id="known"),
        pytest.param(obj("z", version=2), [], id="unknown"),
        pytest.param(obj("a", version=0), [], id="older"),
    ],
)
def test_an_unreadable_object_is_deleted_like_any_other(deleted, changes):
    store = Store()
    relist(store, obj("a"))
    out = []
    store.forget(identity(deleted), out)
    assert [short(change) for change in out] == changes


def test_a_deletion_of_a_successor_makes_the_predecessor_certainly_gone_even_with_a_selector():
    store = Store(has_selectors=True)
    out = []
    relist(store, obj("a"))
    store.forget(identity(obj("a", uid="2", version=5)), out)
    assert [short(change) for change in out] == ["-a1@1"]


names = st.sampled_from("abc")
states = st.dictionaries(names, st.tuples(st.sampled_from("12"), st.integers(1, 3)))


@given(st.lists(states, min_size=1, max_size=6))
def test_who_follows_the_changes_of_relists_has_what_the_server_has(lists):
    store = Store()
    observed = {}
    for version, state in enumerate(lists):
        out = []
        store.begin_list()
        store.add_page([obj(name, uid=uid, version=rv) for name, (uid, rv) in state.items()], [], out)
        store.end_list(str(version), out)
        for change in out:
            if isinstance(change, Upserted):
                observed[change.obj.metadata.name, change.obj.metadata.uid] = change.obj.metadata
            elif isinstance(change, Deleted):
                del observed[change.obj.metadata.name, change.obj.metadata.uid]
        assert {name: (meta.uid, int(meta.resource_version)) for (name, _), meta in observed.items()} == state
        assert {key[1] for key in store.objects} == set(state)


@given(st.lists(st.tuples(st.sampled_from(["upsert", "delete"]), names, st.sampled_from("12"), st.integers(1, 9))))
def test_changes_come_in_pairs_upserted_before_deleted(events):
    store = Store()
    alive = set()
    out = []
    for method, name, uid, version in events:
        getattr(store, method)(obj(name, uid=uid, version=version), out)
    for change in out:
        identity = (change.obj.metadata.name, change.obj.metadata.uid)
        if isinstance(change, Upserted):
            alive.add(identity)
        else:
            assert identity in alive
            alive.remove(identity)
    assert {(key[1], each.metadata.uid) for key, each in store.objects.items()} == alive
