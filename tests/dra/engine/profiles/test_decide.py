"""What is written about profiles: parameters first, then the status of each profile, and nothing twice."""

from dra.engine.instants import Moment
from dra.engine.profiles.cache import ProfileCache
from dra.engine.profiles.decide import WriteConditions, WriteParameters, decide
from dra.model.meta import ObjectMeta, Uid, UnstructuredObject
from dra.model.preemption import PriorityClass
from tests.dra.engine.profiles.examples import PRIORITIES, profile

NOON = Moment(instant=0.0, wall=1_800_000_000.0)
LATER = Moment(instant=60.0, wall=1_800_000_060.0)


def watched(content):
    meta = content["metadata"]
    return UnstructuredObject(metadata=ObjectMeta(name=meta["name"], uid=Uid(meta.get("uid", ""))), content=content)


def cache_of(*profiles):
    found = ProfileCache()
    for name, value in PRIORITIES.items():
        found.observe_class(PriorityClass(metadata=ObjectMeta(name=name), value=value))
    for each in profiles:
        found.observe_profile(watched(each))
    return found


def play(cache, *, now=NOON):
    """Carry out the plan, and return its actions."""
    actions = decide(cache.view(), now=now).actions
    for each in actions:
        match each:
            case WriteParameters():
                cache.observe_parameters(watched({"metadata": {"name": "profiles"}, "spec": each.spec}))
            case WriteConditions():
                content = cache._profiles[each.name]
                cache.observe_profile(watched({**content, "status": {"conditions": [*each.conditions]}}))
    return actions


def test_the_parameters_come_before_the_status_that_says_what_is_in_effect():
    cache = cache_of(profile("a", qosClass="BE", priorityClassName="koord-batch"))
    first, second = play(cache)
    assert isinstance(first, WriteParameters)
    assert first.spec["profiles"][0]["priority"] == 5500
    assert [(each["type"], each["status"]) for each in second.conditions] == [
        ("Ready", "True"),
        ("Conflict", "False"),
        ("Unsupported", "False"),
    ]
    assert play(cache) == ()


def test_a_change_by_somebody_else_is_undone():
    cache = cache_of(profile("a", qosClass="BE"))
    play(cache)
    cache.observe_parameters(watched({"metadata": {"name": "profiles"}, "spec": {}}))
    assert [type(each) for each in play(cache)] == [WriteParameters]


def test_a_deleted_profile_leaves_the_parameters():
    cache = cache_of(profile("a", qosClass="BE"))
    play(cache)
    cache.forget_profile(watched(profile("a")))
    (action,) = play(cache)
    assert action == WriteParameters(spec={"profiles": []})


def test_a_class_that_comes_later_makes_the_profile_ready():
    cache = cache_of(profile("a", priorityClassName="late"))
    *_, conditions = play(cache)
    assert conditions.conditions[0]["reason"] == "PriorityClassNotFound"
    cache.observe_class(PriorityClass(metadata=ObjectMeta(name="late"), value=5001))
    *_, conditions = play(cache, now=LATER)
    assert conditions.conditions[0] | {"message": ""} == {
        "type": "Ready",
        "status": "True",
        "reason": "Applied",
        "message": "",
        "lastTransitionTime": "2027-01-15T08:01:00Z",
    }


def test_the_time_of_a_condition_is_that_of_its_transition():
    cache = cache_of(profile("a", probability="10%"))
    play(cache)
    cache.observe_profile(watched({**cache._profiles["a"], "spec": {"probability": "20%", "qosClass": "LS", "x": 1}}))
    (action,) = play(cache, now=LATER)
    assert {each["lastTransitionTime"] for each in action.conditions} == {"2027-01-15T08:00:00Z"}


def test_a_profile_that_cannot_be_read_says_so_once():
    cache = cache_of(profile("a", qosClass=7))
    *_, action = play(cache)
    assert action.conditions[0]["reason"] == "Invalid"
    assert play(cache, now=LATER) == ()


def test_messages_have_a_maximum_length():
    cache = cache_of(profile("a", **{f"field{n}": n for n in range(100)}))
    *_, action = play(cache)
    assert max(len(each["message"]) for each in action.conditions) == 1024
    assert play(cache) == ()
