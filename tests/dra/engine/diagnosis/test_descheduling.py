"""How a round is summed up: who goes, and who stays for which reason."""

from dra.engine.descheduling.plugin import Refusal, Verdict
from dra.engine.descheduling.round import Decision, Limits, RoundResult
from dra.engine.diagnosis import descheduling
from tests.dra.engine.descheduling.rounds import Naming, evicted, play, pod, profile


def refused(name, message, *, refusal=Refusal.PROTECTED, plugin="A"):
    verdict = Verdict(accepted=False, refusal=refusal, message=message)
    return Decision(pod=pod(name), node="n1", profile="p", plugin=plugin, reason="r", verdict=verdict)


def test_pods_that_stay_for_one_reason_are_one_group_without_their_names_in_the_reason():
    texts = [("a", "pod ns/a: is bare"), ("b", "pod ns/b: is bare"), ("c", "pod ns/c: is critical")]
    result = RoundResult(decisions=[refused(name, text) for name, text in texts])
    groups = [(group.message, [name for _, name in group.pods]) for group in descheduling.staying(result)]
    assert groups == [("is bare", ["a", "b"]), ("is critical", ["c"])]


def test_a_pod_that_is_refused_twice_for_one_reason_is_counted_once():
    result = RoundResult(decisions=[refused("a", "node n1: full")] * 2)
    (group,) = descheduling.staying(result)
    assert group.pods == (("ns", "a"),)
    assert descheduling.candidates(result.decisions) == 1


def test_a_pod_that_one_plugin_moved_does_not_stay_because_another_named_it_again():
    result, _ = play([pod("a"), pod("b", node="n2")], profile(Naming("a", name="A"), Naming("a", name="B")))
    assert evicted(result) == ["a"]
    assert descheduling.staying(result) == ()
    (first, second) = descheduling.decisions_on(result, pod("a").metadata.uid)
    assert (first.plugin, first.verdict.accepted, second.verdict.refusal) == ("A", True, Refusal.MOVING)


def test_the_limit_of_a_node_names_the_node():
    result, _ = play([pod("a"), pod("b"), pod("c", node="n2")], profile(Naming("a", "b")), limits=Limits(per_node=1))
    (group,) = descheduling.staying(result)
    assert (group.refusal, group.pods) == (Refusal.NODE_LIMIT, (("ns", "b"),))
    assert group.message.startswith("node n1: ")
