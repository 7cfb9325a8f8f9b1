import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.cpus.cpu_assignments import CpuAssignments
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from kubeletplugin.contract import DevicesInUseError, PreparedClaim, PrepareError
from kubeletplugin.drivers.cpu.cpu_allocator import allocate_cpus
from kubeletplugin.drivers.cpu.prepared_cpus import claim_allocations, prepared_state, request_cpusets
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.claims import asks, cpu, part
from tests.violations import for_each_case

MACHINE = uniform_topology(sockets=2, cores=4, threads=2)
"""CPUs 0-7 | 8-15, siblings next to each other."""

RESERVED = parse("0-1")

IN_USE, UNSUITABLE = PrepareRefusalReason.CPUS_IN_USE, PrepareRefusalReason.CPUS_UNSUITABLE


def chosen(request, *others, reserved=RESERVED):
    return [
        str(each.cpus) for each in allocate_cpus(CpuAssignments(topology=MACHINE, reserved=reserved), request, others)
    ]


def prepared(request, *others):
    """Return the preparation of a claim, as far as choices go."""
    found = allocate_cpus(CpuAssignments(topology=MACHINE, reserved=RESERVED), request, others)
    return PreparedClaim(
        claim=request.claim, driver="cpu.reserve.dra", devices=(), state=prepared_state(request, found)
    )


def test_single_cpus_are_what_was_allocated():
    assert chosen(asks("a", cpu(3), cpu(12))) == ["3", "12"]


def test_of_a_numa_node_whole_cores_are_taken_that_are_not_reserved():
    assert chosen(asks("a", part(0, "4"))) == ["2-5"]


def test_what_others_have_is_not_taken():
    first = prepared(asks("a", part(0, "2")))
    assert chosen(asks("b", part(0, "4")), first) == ["4-7"]


def test_parts_of_one_claim_do_not_overlap():
    assert chosen(asks("a", part(0, "2", share="s1"), part(0, "2", share="s2"), part(1, "1", share="s3"))) == [
        "2-3",
        "4-5",
        "8",
    ]


def test_the_policy_can_be_chosen():
    assert chosen(asks("a", part(1, "3"), config={"preferredCPUBindPolicy": "SpreadByPCPUs"})) == ["8,10,12"]


def test_exclusivity_is_remembered_and_heeded():
    wish = {"preferredCPUBindPolicy": "SpreadByPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"}
    first = prepared(asks("a", part(1, "2"), config=wish))
    assert chosen(asks("b", part(1, "2"), config=wish), first) == ["12,14"]
    assert chosen(asks("b", part(1, "2"), config={"preferredCPUBindPolicy": "SpreadByPCPUs"}), first) != ["12,14"]


def test_admin_access_holds_nothing():
    first = prepared(asks("a", cpu(3)))
    looker = asks("b", cpu(3, admin_access=True))
    assert chosen(looker, first) == [""]
    assert claim_allocations(prepared(looker, first)) == ()


def test_requests_are_remembered_by_their_names_without_subrequests():
    mine = prepared(asks("a", cpu(3, request="fast/first"), cpu(4, request="fast/first"), cpu(9, request="slow")))
    assert request_cpusets(mine) == {"fast": parse("3-4"), "slow": parse("9")}


@for_each_case(
    [
        pytest.param(asks("b", cpu(3)), r"CPUs 3 are held by claim ml/a \(uid uid-a\)", id="held-by-another-claim"),
        pytest.param(asks("b", cpu(1)), "CPUs 1 are reserved for the system", id="reserved"),
        pytest.param(asks("b", cpu(99)), "device cpu-99: none of its CPUs is online", id="offline"),
        pytest.param(asks("b", part(0, "6")), "not enough cpus available", id="too-many"),
        pytest.param(asks("b", part(0, "")), "--cpu-devices individual", id="no-consumable-capacity"),
        pytest.param(asks("b", part(0, "1500m")), "must be integer: 1500m", id="half-a-cpu"),
        pytest.param(asks("b", part(0, "many")), "'many' is not a quantity", id="no-number"),
        pytest.param(asks("b", cpu(5), config={"cpuset": "3"}), "parameters: CpuConfig.cpuset: unknown", id="typo"),
        pytest.param(
            asks("b", part(1, "3"), config={"requiredCPUBindPolicy": "FullPCPUs"}),
            "not multiple cpus per core",
            id="odd-number-of-whole-cores",
        ),
        pytest.param(
            asks("b", cpu(4), cpu(6), config={"requiredCPUBindPolicy": "FullPCPUs"}),
            "the scheduler chose CPUs 4,6",
            id="scheduler-chose-otherwise",
        ),
    ]
)
def test_refusals_name_claim_and_reason(request_, text):
    first = prepared(asks("a", cpu(3), cpu(2)))
    with pytest.raises(PrepareError, match=text) as refused:
        chosen(request_, first)
    assert str(refused.value).startswith("claim ml/b (uid uid-b): ")


@for_each_case(
    [
        pytest.param(asks("b", part(0, "6")), IN_USE, id="held-by-others"),
        pytest.param(asks("b", part(0, "7")), UNSUITABLE, id="more-than-there-ever-are"),
        pytest.param(asks("b", part(1, "9")), UNSUITABLE, id="of-a-numa-node-of-which-nobody-has-any"),
        pytest.param(asks("b", cpu(3)), IN_USE, id="a-single-one-that-is-held"),
        pytest.param(asks("b", cpu(1)), UNSUITABLE, id="a-single-one-that-is-reserved"),
        pytest.param(asks("b", cpu(99)), UNSUITABLE, id="a-single-one-that-is-offline"),
        pytest.param(asks("b", part(0, "1500m")), None, id="malformed-on-each-node"),
        pytest.param(asks("b", cpu(5), config={"cpuset": "3"}), None, id="bad-parameters-on-each-node"),
    ]
)
def test_only_what_others_may_give_back_is_waited_for_and_these_are_named(wanted, reason):
    first = prepared(asks("a", part(0, "2")))
    with pytest.raises(PrepareError) as refused:
        chosen(wanted, first)
    kind = DevicesInUseError if reason is IN_USE else PrepareError
    assert (type(refused.value), refused.value.reason) == (kind, reason)
    assert ("by claim ml/a (uid uid-a)" in str(refused.value)) is (kind is DevicesInUseError)


def test_the_last_cpu_for_all_others_is_not_given_away():
    everything = [cpu(number) for number in range(16)]
    with pytest.raises(PrepareError, match="no CPU would be left"):
        chosen(asks("b", *everything), reserved=NO_CPUS)


@given(
    claims=st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6)), min_size=1, max_size=3), min_size=1, max_size=6
    ),
    policy=st.sampled_from(["FullPCPUs", "SpreadByPCPUs"]),
)
def test_whatever_is_asked_for_no_cpu_is_given_twice_and_none_that_is_reserved(claims, policy):
    given_away = []
    for number, parts in enumerate(claims):
        results = [part(node, str(count), share=f"s{number}-{i}") for i, (node, count) in enumerate(parts)]
        request = asks(f"c{number}", *results, config={"preferredCPUBindPolicy": policy})
        try:
            given_away.append((parts, prepared(request, *(each for _, each in given_away))))
        except PrepareError:
            continue
    seen = CpuSet()
    for parts, each in given_away:
        held = [holding.cpus for holding in claim_allocations(each)]
        assert [len(cpus) for cpus in held] == [count for _, count in parts]
        for cpus in held:
            assert not cpus & (seen | RESERVED)
            seen |= cpus
