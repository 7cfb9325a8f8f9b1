"""Each command of the pages that people read when something is wrong can be typed as it stands, on a local plane.

`ELSEWHERE` says where the blocks of the other pages are run, `NOT_HERE` which commands no plane can answer.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages.following import NOT_RUN, ROOT, programs, steps

TYPED = [
    ROOT / "docs/a-claim-is-not-freed.md",
    ROOT / "docs/kubectl-dra.md",
    ROOT / "docs/how-to/pending-pod.md",
    *sorted((ROOT / "docs/runbooks").glob("*.md")),
]

ELSEWHERE = {
    "README.md": "tests/scenarios/test_install.py",
    "docs/design/simulating.md": "tests/dra/cli/kubectl",
    "docs/downgrade.md": "tests/scenarios/test_downgrade.py",
    "docs/how-to/reserve-ahead.md": "tests/scenarios/reservations/test_examples.py",
    "docs/how-to/upgrade.md": "tests/scenarios/test_chart.py",
    "docs/install.md": "tests/scenarios/test_install.py",
    "docs/kubelet-plugin.md": "tests/test_plugin_page.py",
    "docs/kubernetes-versions.md": "tests/scenarios",
    "docs/local-plane.md": "tests/dra/cli/local/test_commands.py",
    "docs/metrics.md": "tests/deploy/test_chart.py",
    "docs/podgroups.md": "tests/scenarios/behind_gates",
    "docs/release-from-your-controller.md": "tests/scenarios/test_foreign_controller.py",
    "docs/reserving-devices.md": "tests/scenarios/reservations",
    "docs/scheduler-extender.md": "tests/scenarios/reservations",
    "docs/switching-off.md": "tests/scenarios/test_switching_off.py",
    "docs/tutorial/first-claim.md": "tests/pages/test_pages.py",
}
"""Page → what runs its blocks, or what they do: they need a cluster, nodes or a chart."""

NOT_HERE = re.compile(r"kubectl (logs|top) |/debug/api_priority_and_fairness|kubectl dra (preflight|release)|gpu-node-")
"""A plane has no logs, no metrics API, no flow control, is no installation, and has other nodes than the reader.

Releasing takes its time: examples/shared-gpu does it."""

MAY_COMPLAIN = re.compile(r"kubectl dra (explain|why|audit|release|wait|simulate)\b")
"""Exit code 1 is an answer of theirs."""

KNOWN = (
    (r"\bpod NAME\b", "pod train-0"),
    (r"\bNAME\b", "train"),
    (r"\bNAMESPACE\b", "ml"),
    (r"--timeout=\w+", "--timeout=1s"),
)

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    bin_folder = programs(folder / "bin")
    plane = folder / "plane"
    options = ["--api", "stock", "--nodes", "1", "--devices", "2", "--folder", str(plane)]
    known = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "KUBECONFIG": str(plane / "kubeconfig")}
    known |= {"HOME": str(folder), "NO_COLOR": "1"}
    for name in ("examples", "deploy", "crds"):  # what is written by a command must not land in the tree
        (folder / name).symlink_to(ROOT / name)
    own = (ROOT / "examples/training-job/claim.yaml").read_text()  # the reader's
    (folder / "claim.yaml").write_text(own.replace("training", "fresh").replace("name: train\n", "name: other\n"))

    def run(*command):
        subprocess.run(command, check=True, capture_output=True, timeout=60, env=known, cwd=folder)

    run(bin_folder / "dra-reserve", "local", "up", "--detach", *options)
    for command in (
        ["kubectl", "apply", "-f", ROOT / "tests/pages/prepared.yaml"],
        ["kubectl", "apply", "-f", ROOT / "crds/reservations.scheduling.koordinator.sh.yaml"],
        ["kubectl", "wait", "pod/train-0", "-n", "ml", "--for=condition=Ready", "--timeout=30s"],
    ):
        run(*command)
    yield known | {"FOLDER": str(folder)}
    run(bin_folder / "dra-reserve", "local", "down", "--folder", str(plane))


def lines(page):
    """The commands of a page, about the claim that is there; patience is a second."""
    for step in steps(page):
        for line in NOT_RUN.sub("", step.commands).replace("\\\n", " ").splitlines():
            told = line
            for pattern, known in KNOWN:
                told = re.sub(pattern, known, told)
            if told.strip() and not NOT_HERE.search(told):
                yield told


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_the_commands_of_a_page_can_be_typed(page, environment):
    wrong = []
    for line in lines(page):
        done = subprocess.run(
            ["bash", "-c", line],  # noqa: S607
            env=environment,
            cwd=environment["FOLDER"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        allowed = {0, 1} if MAY_COMPLAIN.search(line) else {0}
        if done.returncode not in allowed:
            wrong.append(f"{line}\n{done.stdout}{done.stderr}")
    assert not wrong, "\n".join(wrong)


def test_of_each_page_it_is_known_where_its_blocks_are_run():
    here = {str(page.relative_to(ROOT)) for page in TYPED}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    with_blocks = {str(page.relative_to(ROOT)) for page in pages if steps(page)}
    assert with_blocks - here == ELSEWHERE.keys(), "type it here, or say in ELSEWHERE what runs its blocks"
    assert [path for path in ELSEWHERE.values() if not Path(ROOT / path).exists()] == []
