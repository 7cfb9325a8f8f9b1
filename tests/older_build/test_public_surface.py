"""Everything that users of the older build can refer to is still there: names, metrics, fields, CRDs, exit codes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.older_build.compatibility import breaks
from tests.older_build.intended import EXIT_CODES, INTENDED

if TYPE_CHECKING:
    from tests.older_build.builds import Build

pytestmark = pytest.mark.slow

COLLECTOR = Path(__file__).with_name("surface.py")

FEWEST = 30
"""Names of a section: with fewer, the collector understands the pages or sources of that build no longer."""

UNREACHABLE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "nobody",
    "contexts": [{"name": "nobody", "context": {"cluster": "nobody", "user": "nobody"}}],
    "clusters": [{"name": "nobody", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {}}],
}
FILES = {
    "unknown.yaml": "noSuchField: 1",
    "broken.yaml": "{",
    "lease.yaml": "leaderElection: {leaseSeconds: 5, renewSeconds: 9}",
    "nobody.kubeconfig": json.dumps(UNREACHABLE),
}
PLUGIN = "--kubeconfig nobody.kubeconfig --node-name n --plugins p --registry r --cdi c"

ENDING = (
    "dra-reserve controller --config missing.yaml",
    "dra-reserve controller --config unknown.yaml",
    "dra-reserve controller --config broken.yaml",
    "dra-reserve controller --config lease.yaml --kubeconfig nobody.kubeconfig",
    "dra-reserve controller --mode other",
    "dra-reserve scheduler-extender --config unknown.yaml",
    "dra-reserve descheduler --config unknown.yaml",
    f"dra-reserve kubelet-plugin --drivers tpu {PLUGIN}",
    f"dra-reserve kubelet-plugin --drivers gpu --inventory simulated:missing.yaml {PLUGIN}",
    "dra-reserve local status --folder missing",
    "kubectl-dra audit --kubeconfig nobody.kubeconfig",
    "kubectl-dra preflight --kubeconfig nobody.kubeconfig",
    "kubectl-dra release claim missing --kubeconfig nobody.kubeconfig",
    "kubectl-dra explain reason Deallocated",
    "kubectl-dra explain reason Missing",
)
"""Command lines that need no cluster and end at once; those on a cluster are in the other modules."""


def surface(build: Build) -> dict[str, dict[str, dict[str, object]]]:
    answer = build.run(build.python(str(COLLECTOR), str(build.tree)))
    assert answer.returncode == 0, f"{build}: {answer.stderr}"
    found: dict[str, dict[str, dict[str, object]]] = json.loads(answer.stdout)
    return found


def test_nothing_that_users_refer_to_is_gone_or_means_something_else(older: Build, newer: Build) -> None:
    old = surface(older)
    sizes = {section: len(names) for section, names in old.items()}
    assert min(sizes.values()) >= FEWEST, f"too little was found out about {older}: {sizes}"
    broken = breaks(old, surface(newer), intended=INTENDED)
    assert not broken, (
        f"{older} has it, {newer} has not; give it back, or add it to {__package__}.intended with the reason:\n"
        + "\n".join(broken)
    )


@pytest.mark.parametrize("line", ENDING)
def test_a_command_ends_with_the_same_exit_code(line: str, older: Build, newer: Build, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    program, *arguments = shlex.split(line)
    was, now = (each.run(each.command(*arguments, program=program), folder=tmp_path) for each in (older, newer))
    if "No such command" in was.stderr:
        pytest.skip(f"{older} does not have the command yet")
    assert now.returncode == was.returncode or line in EXIT_CODES, (
        f"{line}: exit code {now.returncode}, of {older} {was.returncode}:\n{now.stderr}"
    )
