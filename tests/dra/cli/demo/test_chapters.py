from collections import Counter
from types import SimpleNamespace

import pytest

from dra.cli.demo import chapters
from dra.cli.demo.safety_check import ClaimVersion

ALLOCATED = SimpleNamespace(status=SimpleNamespace(allocation=object()))
FREE = SimpleNamespace(status=SimpleNamespace(allocation=None))


class RecordedScreen:
    """Records what the demo prints."""

    def __init__(self):
        self.good_lines = []
        self.tables = 0

    def progress(self, *_):
        pass

    def good(self, text):
        self.good_lines.append(text)

    async def print_table(self, *_, **__):
        self.tables += 1


def scene_of(screen, now, *devices):
    versions = [
        ClaimVersion(revision=number, key=("demo", "next"), uid="u", devices=frozenset(found))
        for number, found in enumerate(devices)
    ]
    history = SimpleNamespace(
        claim=lambda _: now,
        claim_versions=lambda _: versions,
        phases=lambda *_: Counter(),
        list_summary=lambda _: "empty",
    )
    plane = SimpleNamespace(api="kep")
    return chapters.DemoScene(plane=plane, history=history, screen=screen, show=screen, pods=4, seconds=1.0)


@pytest.mark.parametrize(
    ("now", "devices", "text"),
    [
        pytest.param(ALLOCATED, ((), ("d0",)), "claim next has the device:", id="its-pod-runs"),
        pytest.param(FREE, ((), ("d0",), ()), "claim next got the device, which is free again", id="its-pod-has-ended"),
    ],
)
async def test_a_claim_that_had_the_device_while_another_plane_was_shown_is_not_waited_for(now, devices, text):
    screen = RecordedScreen()
    await chapters.show_next_claim(scene_of(screen, now, *devices))
    assert [text in line for line in screen.good_lines] == [True]
    assert screen.tables == 1


async def test_a_claim_that_never_had_the_device_fails_the_step(monkeypatch):
    monkeypatch.setattr(chapters, "STEP_TIMEOUT", 0.0)
    with pytest.raises(chapters.DemoStepError, match="not done"):
        await chapters.show_next_claim(scene_of(RecordedScreen(), FREE, ()))
