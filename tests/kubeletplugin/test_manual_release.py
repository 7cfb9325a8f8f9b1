"""What a person may give back, who keeps it from being given back, and what is left to read of it."""

import json
import logging

import pytest

from dra.model.meta import ObjectMeta, Uid
from dra.model.pods import Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus
from kubeletplugin import manual_release, release_journal
from kubeletplugin.contract import PrepareError
from kubeletplugin.manual_release import ForeignPodsError
from tests.kubeletplugin.fakes import DRIVER, FakeDriver, FakeNode, claim
from tests.kubeletplugin.test_claim_preparer import one
from tests.violations import for_each_case

BECAUSE = "no pod on node n1 uses it"


@pytest.fixture
def node(tmp_path):
    found = FakeNode(tmp_path)
    found.own.rename(tmp_path / DRIVER)  # as --plugins has it
    found.own = tmp_path / DRIVER
    found.checkpoint = found.own / "checkpoint.json"
    return found


def pod(name, *, namespace="ml", node="n1", phase="Running", claims=(), generated=()):
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=Uid(f"uid-{name}")),
        spec=PodSpec(
            node_name=node,
            resource_claims=[
                *(PodResourceClaim(name=f"c{n}", resource_claim_name=each) for n, each in enumerate(claims)),
                *(PodResourceClaim(name=each, resource_claim_template_name="t") for each in generated),
            ],
        ),
        status=PodStatus(
            phase=phase,
            resource_claim_statuses=[PodResourceClaimStatus(name=e, resource_claim_name=e) for e in generated],
        ),
    )


OWN = pod("plugin", namespace="dra-reserve-nodes")


@for_each_case(
    [
        pytest.param([], (), id="nobody"),
        pytest.param([pod("p", claims=["a"])], ("ml/p (Running)",), id="by-name"),
        pytest.param([pod("p", generated=["a"])], ("ml/p (Running)",), id="from-a-template"),
        pytest.param([pod("p", claims=["a"], phase="")], ("ml/p (Pending)",), id="not-started"),
        pytest.param([pod("p", claims=["a"], phase="Failed")], (), id="ended"),
        pytest.param([pod("p", claims=["a"], node="n2")], (), id="elsewhere"),
        pytest.param([pod("p", claims=["a"], namespace="x")], (), id="a-namesake"),
        pytest.param([pod("p", claims=["b"])], (), id="another-claim"),
    ]
)
def test_who_uses_a_claim_on_a_node(pods, expected):
    assert manual_release.pods_using_claim(claim("a"), [OWN, *pods], node="n1", own="uid-plugin") == expected


@pytest.mark.parametrize(
    ("pods", "own", "told"),
    [
        pytest.param([], "", "no pod of that node is in it", id="empty"),
        pytest.param([pod("p", node="n2")], "", "no pod of that node is in it", id="of-another-node"),
        pytest.param([pod("p")], "uid-plugin", "this plugin's own pod is missing", id="of-one-namespace"),
    ],
)
def test_a_list_that_cannot_be_that_of_the_node_is_refused(pods, own, told):
    with pytest.raises(ForeignPodsError, match=f"pods: not the complete list of pods on node n1: {told}"):
        manual_release.pods_using_claim(claim("a"), pods, node="n1", own=own)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"items": 3}', b'{"items": [{"spec": 1}]}', b"\xff"])
def test_what_is_no_list_of_pods_is_refused(body):
    with pytest.raises(ForeignPodsError, match="pods: not the output of kubectl get pods -A -o json"):
        manual_release.parse_pod_list(body)


async def test_a_plugin_that_runs_takes_note_of_what_was_given_back(node, caplog):
    driver = FakeDriver()
    plugin = node.instance(driver=driver)
    a, b = node.claims.allocate("a", "gpu-0"), node.claims.allocate("b", "gpu-0")
    other = node.claims.allocate("other", "gpu-1")
    await plugin.prepare([a, other])
    (found,) = (
        h for h in manual_release.held_claims(node.folder, ["cpu.reserve.dra", DRIVER]) if h.preparation.claim == a
    )
    assert str(found) == f"{a}: n1/gpu-0 of driver {DRIVER}"
    await manual_release.release_claim(found, cdi=node.cdi.folder, because=BECAUSE)
    assert set(node.remembered) == {other.uid} == node.cdi.uids()
    with caplog.at_level(logging.INFO):
        await plugin.reconcile()
    assert set(driver.enforced) == {other.uid}
    (told,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert told.startswith(f"{a}: was released manually: 20")
    assert told.endswith(BECAUSE)
    assert not isinstance(await one(plugin.prepare, b), PrepareError)
    entry = json.loads((node.own / release_journal.JOURNAL_FILE).read_text())
    assert (entry["claim"], entry["uid"], entry["devices"]) == ("ml/a", a.uid, ["n1/gpu-0"])
    assert (node.own / release_journal.JOURNAL_FILE).stat().st_mode & 0o777 == 0o600


async def test_what_cannot_be_written_down_is_not_given_back(node):
    a = node.claims.allocate("a", "gpu-0")
    await node.instance().prepare([a])
    (node.own / release_journal.JOURNAL_FILE).mkdir()
    (found,) = manual_release.held_claims(node.folder, [DRIVER])
    with pytest.raises(OSError, match="Is a directory"):
        await manual_release.release_claim(found, cdi=node.cdi.folder, because=BECAUSE)
    assert set(node.remembered) == {a.uid} == node.cdi.uids()


async def test_what_the_other_instance_of_a_rolling_update_gave_back_is_no_release_by_hand(node, caplog):
    old, new = node.instance(), node.instance()
    a = node.claims.allocate("a", "gpu-0")
    await old.prepare([a])
    await new.unprepare([a])
    with caplog.at_level(logging.INFO):
        await old.reconcile()
    assert [record.getMessage() for record in caplog.records] == [
        f"{a}: was unprepared by another instance of the plugin"
    ]


def test_half_a_line_in_the_journal_is_passed_over(tmp_path):
    assert release_journal.read_releases(tmp_path) == {}
    (tmp_path / release_journal.JOURNAL_FILE).write_text(
        '{"uid": "a", "time": "t", "because": "b"}\n[]\n{"uid": "b"}\n{"uid":'
    )
    assert release_journal.read_releases(tmp_path) == {"a": "t, b"}
