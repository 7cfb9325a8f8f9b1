import pytest

from dra.cli.demo.safety_check import ClaimVersion, PodVersion, check_safety
from tests.violations import for_each_case


def claim(revision, name="train", devices="", *, uid=None, **more):
    return ClaimVersion(
        revision=revision, key=("ml", name), uid=uid or f"uid-{name}", devices=frozenset(devices.split()), **more
    )


def pod(revision, name="p", *, consuming=True, **more):
    return PodVersion(
        revision=revision, key=("ml", name), uid=f"uid-{name}", claims=("train",), consuming=consuming, **more
    )


GOOD = [
    claim(1),
    pod(2, consuming=False),
    claim(3, devices="d0", entries=1),
    pod(4),
    claim(5, devices="d0", entries=240, pods_listed=238),
    pod(6, consuming=False),
    claim(7),
    claim(8, "next", devices="d0"),
    claim(9, "next", devices="d0", deleted=True),
]


def test_a_good_history_has_nothing_wrong_and_is_counted():
    verdict = check_safety(reversed(GOOD))
    assert verdict.violations == []
    assert (verdict.writes, verdict.allocations, verdict.pods) == (9, 2, 1)
    assert verdict.max_list_length == 240


@for_each_case(
    [
        pytest.param(
            [claim(1, devices="d0"), pod(2), claim(3), pod(4, consuming=False)],
            "revision 3: claim ml/train: taken from pod ml/p, which used it",
            id="deallocated-under-a-pod",
        ),
        pytest.param(
            [claim(1, devices="d0"), pod(2), pod(3, "q"), claim(4, devices="d1"), claim(5)],
            "taken from pod ml/p and 1 others",
            id="another-device-under-pods",
        ),
        pytest.param(
            [claim(1, devices="d0"), pod(2), claim(3, deleted=True)], "taken from pod ml/p", id="deleted-under-a-pod"
        ),
        pytest.param(
            [claim(1, devices="d0 d1"), claim(2, "next", devices="d1"), claim(3), claim(4, "next")],
            "revision 2: claim ml/next: got device d1, which another claim has (uid uid-train)",
            id="a-device-twice",
        ),
        pytest.param(
            [claim(1), pod(2), claim(3, devices="d0"), pod(4, consuming=False), claim(5)],
            "revision 2: pod ml/p was bound without an allocation of its claim train",
            id="bound-too-early",
        ),
        pytest.param([claim(1, devices="d0")], "claim ml/train: still has d0", id="a-device-leaks"),
        pytest.param([claim(1, entries=2)], "claim ml/train: still has 2 entries", id="a-list-that-is-not-emptied"),
        pytest.param([claim(1, devices="d0"), pod(2)], "pod ml/p: has not ended", id="a-pod-that-never-ends"),
    ]
)
def test_what_is_wrong_is_found(history, expected):
    assert any(expected in each for each in check_safety(history).violations), check_safety(history).violations


@pytest.mark.parametrize(
    ("last", "well"),
    [
        pytest.param(claim(2, devices="d0", entries=1), True, id="the-guard-alone"),
        pytest.param(claim(2, devices="d0", entries=2), False, id="another-entry-besides"),
        pytest.param(claim(2, devices="d0", entries=1, pods_listed=1), False, id="a-pod"),
        pytest.param(claim(2, devices="d0"), False, id="nothing"),
    ],
)
def test_a_guard_may_keep_the_devices_of_a_claim_after_a_restart(last, well):
    assert (check_safety([claim(1), last], guarded={last.key}).violations == []) is well
    assert check_safety([claim(1), last]).violations


def test_a_new_claim_of_the_name_may_have_the_device_of_the_old_one():
    history = [
        claim(1, devices="d0"),
        claim(2, devices="d0", deleted=True),
        claim(3, devices="d0", uid="new"),
        claim(4, uid="new"),
    ]
    assert check_safety(history).violations == []
