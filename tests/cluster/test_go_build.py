"""What is shown of a build that takes long: complaints, and how far it is, but not each package."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from tests.cluster import go_build

PACKAGE = "k8s.io/api/core/v1\n"
DOWNLOAD = "go: downloading k8s.io/api v0.37.2\n"
HEADING = "# k8s.io/api/core/v1\n"
COMPLAINT = "./main.go:7:2: undefined: cobra\n"
REFUSED = "go: k8s.io/ktesting@v0.38.0: 403 Forbidden\n"


def shown(*lines: str, seconds: float) -> list[str]:
    """Return what is shown of lines, at whose every look the clock has gone on."""
    return list(go_build.shown(lines, packages=1906, now=count(0.0, seconds).__next__))


@pytest.mark.parametrize("line", [HEADING, COMPLAINT, REFUSED], ids=["heading", "complaint", "refused-module"])
def test_a_complaint_is_shown_as_it_is(line: str) -> None:
    assert shown(PACKAGE, line, PACKAGE, seconds=1.0) == [line]


@pytest.mark.parametrize("line", [PACKAGE, DOWNLOAD, "vendor/golang.org/x/net/idna\n"], ids=["own", "module", "vendor"])
def test_what_is_compiled_in_less_than_a_minute_is_not_shown(line: str) -> None:
    assert shown(*([line] * 59), seconds=1.0) == []


def test_a_long_build_says_once_a_minute_how_far_it_is() -> None:
    lines = shown(*([PACKAGE] * 500), seconds=0.5)
    assert [line.partition(":")[0].strip() for line in lines] == ["1 min", "2 min", "3 min", "4 min"]
    assert lines[0].endswith("120 of at most 1,906 packages compiled\n")


@pytest.mark.parametrize(("status", "works"), [(0, True), (1, False)], ids=["built", "refused"])
def test_a_build_says_whether_it_worked_and_why_not(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    status: int,
    works: bool,  # noqa: FBT001 - a row
) -> None:
    go = tmp_path / "go"
    go.write_text(f'#!/bin/sh\ntest "$1" = list && exit\necho "{PACKAGE}{COMPLAINT}" >&2; exit {status}\n')
    go.chmod(0o755)
    assert go_build.run(str(go), ".", folder=tmp_path, environment={**os.environ}, output=tmp_path / "out") is works
    assert capsys.readouterr().err.strip() == COMPLAINT.strip()
