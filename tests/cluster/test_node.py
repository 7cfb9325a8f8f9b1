"""Reading what a real node has written, and saying what keeps one from running here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster import node, prerequisites

STAMP = "2026-11-21T15:15:56.305860000Z"


@pytest.mark.parametrize(
    ("log", "written"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param(f"{STAMP} stdout F one\n{STAMP} stderr F two\n", "one\ntwo\n", id="both-streams"),
        pytest.param(f"{STAMP} stdout P half\n{STAMP} stdout F  a line\n", "half a line\n", id="a-line-in-two"),
        pytest.param(f"{STAMP} stdout F \n", "\n", id="an-empty-line"),
        pytest.param(f"{STAMP} stdout F one\n{STAMP} std", "one\n", id="the-runtime-is-still-writing"),
        pytest.param(f"{STAMP} stdout F a\x85b\n", "a\x85b\n", id="what-only-python-takes-for-an-end-of-line"),
    ],
)
def test_the_output_of_a_container(log: str, written: str) -> None:
    assert node._written(log) == written


def test_what_is_missing_is_said_with_the_way_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prerequisites, "_PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    told = "; ".join(prerequisites.missing())
    for each in ("root (", "unshare, nsenter, mount", "apt-get install runc", "apt-get install busybox-static"):
        assert each in told


def test_a_busybox_that_needs_libraries_will_not_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prerequisites, "_PATH", str(tmp_path))
    (tmp_path / "busybox").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "busybox").chmod(0o755)
    assert prerequisites.busybox() is None
