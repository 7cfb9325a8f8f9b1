"""Which scenarios are left out on which version of Kubernetes, and why, as their markers say: `pytest.mark.needs`.

python -m tests.scenarios.left_out     writes the list to docs/reference/kubernetes-versions.md anew
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster import binaries
from tests.cluster.versions import minor
from tests.scenarios.features import PAGE, Feature, page_with
from tests.scenarios.target import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER: Final = "tests/scenarios"
MARK: Final = "left out"
"""The name of the part of the page."""


class Collected:
    """A pytest plugin that keeps what is collected."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


def collect() -> list[pytest.Item]:
    """Return all scenarios, as on a cluster that is built here. Changes the environment: for a process of its own."""
    os.environ["DRA_CLUSTER"] = Place.LOCAL
    for name in (binaries.CHOICE, "PYTEST_ADDOPTS"):  # the latter is of the run that asks for the list
        os.environ.pop(name, None)
    found = Collected()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", FOLDER], plugins=[found])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"{FOLDER} cannot be collected:\n{said.getvalue()}")
    return found.items


def by_need(items: Iterable[pytest.Item]) -> Mapping[tuple[Feature, ...], Counter[str]]:
    """Return how many cases each scenario has, by the features that it needs; those that need none are not there."""
    found: dict[tuple[Feature, ...], Counter[str]] = defaultdict(Counter)
    for item in items:
        wanted = {each for marker in item.iter_markers("needs") for each in marker.args}
        features = tuple(feature for feature in Feature if feature in wanted)
        if features:
            file, _, rest = item.nodeid.removeprefix(f"{FOLDER}/").partition("::")
            found[features][f"{file}::{rest.partition('[')[0]}"] += 1
    return found


def table(items: Iterable[pytest.Item]) -> str:
    """Return the list in Markdown: the versions on which scenarios are left out, what these lack, the scenarios."""
    versions = [program.version for program in reversed(binaries.controlplanes())]
    lines = ["| left out on | since these lack | scenarios (cases) |", "| --- | --- | --- |"]
    for features, scenarios in sorted(
        by_need(items).items(), key=lambda each: [list(Feature).index(f) for f in each[0]]
    ):
        lacking = [version for version in versions if not all(feature.among(version) for feature in features)]
        if lacking:
            on = ", ".join(f"1.{minor(version)}" for version in lacking)
            named = ", ".join(f"`{name}` ({count})" for name, count in sorted(scenarios.items()))
            lines.append(f"| {on} | {'; '.join(feature.does for feature in features)} | {named} |")
    return "".join(f"{line}\n" for line in lines)


def page(items: Iterable[pytest.Item]) -> str:
    """Return the page as it should be."""
    return page_with(table(items), mark=MARK)


def main(*arguments: str) -> None:
    """Write the page, or with --print the list alone to the standard output."""
    items = collect()
    if "--print" in arguments:
        sys.stdout.write(table(items))
        return
    PAGE.write_text(page(items), encoding="utf-8")
    sys.stdout.write(f"{PAGE}: written\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
