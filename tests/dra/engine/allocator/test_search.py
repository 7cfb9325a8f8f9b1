"""The search: complete, sound, and quick where it matters."""

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dra.engine.allocator import AllocationFailure, ConsumedCapacityCollection, allocate, claim_to_allocate
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from tests.dra.engine.allocator import oracle, strategies
from tests.dra.engine.allocator.strategies import device, exactly, first_of, inventory, item, ledger, slice_of, wanted
from tests.violations import for_each_case


def found(wanted_, *slices, held=()):
    """Return request=device of each claim, or the refusal's text."""
    offer = inventory(*slices).node_devices(strategies.NODE, {})
    solution = allocate(
        wanted_ if isinstance(wanted_, list) else [wanted_],
        node_devices=offer,
        ledger=ledger(*held),
        consumed_capacity=ConsumedCapacityCollection(),
    )
    if isinstance(solution, AllocationFailure):
        return solution.text
    return [[f"{pick.request.name}={pick.candidate.item.device}" for pick in picks] for picks in solution]


FOUR = slice_of(*(device(f"d{i}", numa=i % 2, color="red" if i < 2 else "blue") for i in range(4)))
NUMA = {"matchAttribute": f"{strategies.DRIVER}/numa"}
APART = {"distinctAttribute": f"{strategies.DRIVER}/numa"}
NONE = "cannot allocate all claims"


@for_each_case(
    [
        pytest.param([exactly(count=2)], [], [], [["r=d0", "r=d1"]], id="the-first-that-fit"),
        pytest.param([exactly()], [], [item("d0")], [["r=d1"]], id="what-is-held-is-skipped"),
        pytest.param([exactly(count=5)], [], [], NONE, id="more-than-there-are"),
        pytest.param([exactly(cls="red", count=3)], [], [], NONE, id="more-than-the-class-has"),
        pytest.param([exactly(count=2)], [NUMA], [], [["r=d0", "r=d2"]], id="constraint-within-a-request"),
        pytest.param([exactly(count=2)], [APART], [], [["r=d0", "r=d1"]], id="distinct-within-a-request"),
        pytest.param([exactly(count=3)], [APART], [], NONE, id="more-than-distinct-values"),
        pytest.param(
            [exactly("a"), exactly("b", cls="red")],
            [],
            [item("d1")],
            [["a=d2", "b=d0"]],
            id="goes-back-when-the-first-took-what-the-second-needs",
        ),
        pytest.param(
            [exactly("a"), exactly("b")], [NUMA], [item("d0")], [["a=d1", "b=d3"]], id="constraint-across-requests"
        ),
        pytest.param([exactly(count=None)], [], [], [["r=d0", "r=d1", "r=d2", "r=d3"]], id="all"),
        pytest.param([exactly(count=None)], [], [item("d3")], NONE, id="all-but-one-is-held"),
        pytest.param(
            [exactly(count=None, adminAccess=True)], [], [item("d3")], [["r=d0", "r=d1", "r=d2", "r=d3"]], id="admin"
        ),
        pytest.param(
            [first_of("r", exactly("best", cls="red", count=3), exactly("next", count=3))],
            [],
            [],
            [["r/next=d0", "r/next=d1", "r/next=d2"]],
            id="the-first-alternative-that-can-be-had",
        ),
        pytest.param(
            [first_of("r", exactly("best"), exactly("next", cls="red"))], [], [], [["r/best=d0"]], id="in-their-order"
        ),
    ]
)
def test_a_claim_gets(requests, constraints, held, expected):
    assert found(wanted(*requests, constraints=constraints), FOUR, held=held) == expected


def test_two_claims_of_a_pod_are_allocated_together():
    one, two = wanted(exactly(count=3), name="a"), wanted(exactly(), name="b")

    assert found([one, two], FOUR) == [["r=d0", "r=d1", "r=d2"], ["r=d3"]]
    assert found([one, two], FOUR, held=[item("d0")]) == NONE


@for_each_case(
    [
        pytest.param("NoSchedule", [], NONE, id="no-schedule"),
        pytest.param("NoExecute", [], NONE, id="no-execute"),
        pytest.param("None", [], [["r=d"]], id="an-effect-that-has-none"),
        pytest.param("NoSchedule", [{"operator": "Exists"}], [["r=d"]], id="tolerates-all"),
        pytest.param("NoSchedule", [{"key": "k", "operator": "Equal", "value": "v"}], [["r=d"]], id="equal"),
        pytest.param("NoSchedule", [{"key": "k", "operator": "Equal", "value": "w"}], NONE, id="other-value"),
        pytest.param("NoSchedule", [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], NONE, id="effect"),
    ]
)
def test_taints_keep_claims_away_that_do_not_tolerate_them(effect, tolerations, expected):
    tainted = Device(name="d", taints=[DeviceTaint(key="k", value="v", effect=effect)])

    assert found(wanted(exactly(tolerations=tolerations)), slice_of(tainted)) == expected


def test_a_selector_that_fails_ends_the_search_only_where_it_is_asked():
    selector = {"cel": {"expression": f'device.attributes["{strategies.DRIVER}"].numa == 1'}}
    odd, fine = device("odd"), device("d", numa=1)
    one, all_ = wanted(exactly(selectors=[selector])), wanted(exactly(selectors=[selector], count=None))

    assert found(one, slice_of(fine, odd)) == [["r=d"]]
    assert found(one, slice_of(odd, fine), held=[item("odd")]) == [["r=d"]]
    assert "device gpu.example.com/p/odd" in found(one, slice_of(odd, fine))
    assert "device gpu.example.com/p/odd" in found(one, slice_of(fine, odd), held=[item("d")])
    assert "device gpu.example.com/p/odd" in found(all_, slice_of(fine, odd), held=[item("odd")])


def test_all_devices_of_a_pool_that_is_being_updated_cannot_be_had():
    text = found(wanted(exactly(count=None)), FOUR, slice_of(device("x"), name="t", pool="q", count=2))

    assert text == "request r: asks for all devices, but resource pool gpu.example.com/q is currently being updated"


def test_partitions_share_what_there_is():
    def partition(name, memory):
        return Device(name=name, consumes_counters=[{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}])

    pool = slice_of(
        partition("large", "40Gi"),
        partition("s0", "20Gi"),
        partition("s1", "20Gi"),
        node_name=strategies.NODE,
        shared_counters=[{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}],
    )

    assert found(wanted(exactly(count=2)), pool) == [["r=s0", "r=s1"]]
    assert found(wanted(exactly()), pool, held=[item("s0")]) == [["r=s1"]]
    assert found(wanted(exactly()), pool, held=[item("large")]) == NONE


def test_devices_that_cannot_be_told_apart_are_tried_once():
    many = slice_of(*(device(f"d{i}", numa=0) for i in range(60)))
    impossible = [exactly("a", count=8), exactly("b", cls="red", count=1)]

    assert found(wanted(*impossible, constraints=[NUMA]), many) == NONE


def test_a_search_that_takes_too_long_ends():
    unlike = slice_of(*(device(f"d{i}", numa=i, color="red") for i in range(40)))
    same = {"matchAttribute": f"{strategies.DRIVER}/numa", "requests": ["y", "z"]}
    requests = [exactly("x", count=8), exactly("y"), exactly("z")]

    assert found(wanted(*requests, constraints=[same]), unlike) == "gave up after 20000 steps"


def test_parts_of_a_shared_device_add_up_to_no_more_than_it_has():
    shared = Device(name="d", capacity={"memory": {"value": "40Gi"}}, allow_multiple_allocations=True)

    def part(amount, count=1):
        return exactly(count=count, capacity={"requests": {"memory": amount}})

    four, five = ([exactly(f"r{i}", capacity={"requests": {"memory": "10Gi"}}) for i in range(n)] for n in (4, 5))
    assert found(wanted(*four), slice_of(shared)) == [[f"r{i}=d" for i in range(4)]]
    assert found(wanted(*five), slice_of(shared)) == NONE
    assert found([wanted(part("30Gi"), name="a"), wanted(part("20Gi"), name="b")], slice_of(shared)) == NONE
    assert found([wanted(exactly(), name="a"), wanted(part("1"), name="b")], slice_of(shared)) == NONE
    assert found(wanted(part("10Gi", count=2), constraints=[APART]), slice_of(shared)) == NONE
    assert found(wanted(part("1")), slice_of(shared), held=[item("d")]) == NONE


def test_another_part_of_a_shared_partition_draws_no_counters():
    partition = Device(
        name="d",
        capacity={"memory": {"value": "40Gi"}},
        allow_multiple_allocations=True,
        consumes_counters=[{"counterSet": "gpu", "counters": {"memory": {"value": "40Gi"}}}],
    )
    pool = slice_of(
        partition,
        node_name=strategies.NODE,
        shared_counters=[{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}],
    )
    another = exactly(capacity={"requests": {"memory": "10Gi"}})
    assert found(wanted(another), pool, held=[msgspec.structs.replace(item("d"), share="x")]) == [["r=d"]]


@settings(max_examples=80, deadline=None)
@given(claims=strategies.claims(), slices=strategies.slices(), data=st.data())
def test_a_solution_is_found_if_and_only_if_there_is_one(claims, slices, data):
    names = [(s.spec.pool.name, d.name) for s in slices for d in s.spec.devices]
    held = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
    prepared = [claim_to_allocate(each, strategies.CLASSES) for each in claims]
    offer = inventory(*slices).node_devices(strategies.NODE, {})

    solution = allocate(
        prepared,
        node_devices=offer,
        ledger=ledger(*(item(name, pool) for pool, name in held)),
        consumed_capacity=ConsumedCapacityCollection(),
    )

    if isinstance(solution, AllocationFailure) and solution.fatal:
        event("given up")
        assert any(ask.allocation_mode == "All" for each in claims for _, ask in _asks(each))
        return
    exists = oracle.solvable(claims, slices, held)
    event("solvable" if exists else "not solvable")
    assert isinstance(solution, AllocationFailure) != exists
    if not isinstance(solution, AllocationFailure):
        asks = {name: ask for c in claims for name, ask in _asks(c)}
        picks = [
            (
                number,
                p.request.name,
                asks[(claims[number].metadata.name, p.request.name)],
                (p.candidate.item.pool, p.candidate.device),
            )
            for number, each in enumerate(solution)
            for p in each
        ]
        assert oracle.violation(picks, claims, slices, held) is None


def _name(claim):
    return claim.metadata.name


def _asks(claim):
    for request in oracle.DeviceClaim.of(claim.spec.devices).requests:
        for name, ask in oracle._alternatives(request):
            yield (_name(claim), name), ask
