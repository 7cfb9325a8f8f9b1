"""The plane that pages are followed on: one for all of them, several at a time."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import yaml

from tests.pages.following import ENVIRONMENT, followed
from tests.pages.reading import ROOT
from tests.pages.register import FOLLOWED
from tests.pages.serving import programs
from tests.remarks import remark

HERE = Path(__file__).parent
AT_A_TIME = 4
SEEN_FROM_A_PAGE = ("crds", "deploy", "examples")
PREPARED = """
kubectl apply -f tests/pages/prepared.yaml
kubectl apply -f {installed}
kubectl wait job/train -n ml --for=jsonpath={{.status.ready}}=3 --timeout=30s
kubectl rollout status deployment notebook -n ml --timeout=30s
kubectl rollout status deployment idle -n ml --timeout=30s
kubectl scale deployment notebook idle -n ml --replicas=0
kubectl apply -f tests/pages/next.yaml
kubectl wait pods -n ml -l app --for=delete --timeout=30s
kubectl wait pod/next -n ml --for=condition=PodScheduled=false --timeout=30s
"""


def pytest_collection_modifyitems(config, items):
    """Leave out what waits for minutes, unless -m says what is wanted."""
    if not config.option.markexpr:
        left_out = [item for item in items if item.path.parent == HERE and item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
        if left_out:
            remark(
                config,
                f"left out: {len(left_out)} pages that take minutes; follow them with: make test-all ARGS='-m long'",
            )


def without_policies(kustomization):
    """Return what a kustomization installs, but for admission policies, which a plane does not serve."""
    command = ["kubectl", "kustomize", kustomization]  # it renders, and asks no cluster
    text = subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout
    objects = yaml.safe_load_all(text)
    return yaml.safe_dump_all(obj for obj in objects if "AdmissionPolicy" not in obj["kind"])


@pytest.fixture(scope="session")
def typing(tmp_path_factory):
    """An environment in which our programs are on PATH."""
    folder = tmp_path_factory.mktemp("typed")
    with programs(folder / "bin") as bin_folder:
        yield {"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(folder), "NO_COLOR": "1"}


@pytest.fixture(scope="session")
def plane(typing, tmp_path_factory):
    """One with the claim that people ask about; yields the environment of those who do."""
    folder = tmp_path_factory.mktemp("plane")
    known = os.environ | typing | {"KUBECONFIG": str(folder / "kubeconfig")}

    def run(*command):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=known,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout

    program = shutil.which("dra-reserve", path=known["PATH"])
    run(program, "local", "up", "--detach", "--api=stock", "--nodes=3", "--devices=4", f"--folder={folder}")
    installed = folder / "installed.yaml"
    installed.write_text(without_policies("deploy/kustomize/alongside"))
    for line in PREPARED.strip().splitlines():
        run(*line.format(installed=installed).split())
    yield typing | {"KUBECONFIG": known["KUBECONFIG"]}
    run(program, "local", "down", f"--folder={folder}")


@pytest.fixture(scope="session")
def follow(request, plane, tmp_path_factory):
    """Follows a page; those that go together, and are asked for in this run, are begun at once."""

    def begin(page):
        folder = tmp_path_factory.mktemp("page")
        for name in SEEN_FROM_A_PAGE:  # what is written by a command must not land in the tree
            (folder / name).symlink_to(ROOT / name)
        own = (ROOT / "examples/training-job/claim.yaml").read_text()  # the reader's
        (folder / "claim.yaml").write_text(own.replace("training", "fresh").replace("name: train\n", "name: other\n"))
        try:
            return list(followed(page, plane, folder))
        finally:
            for left in folder.glob(".dra*/plane.json"):
                subprocess.run(
                    [shutil.which("dra-reserve", path=plane["PATH"]), "local", "down", f"--folder={left.parent}"],
                    env=ENVIRONMENT | plane,
                    capture_output=True,
                    check=False,
                    timeout=60,
                )

    asked = [item.callspec.params["page"] for item in request.session.items if "follow" in item.fixturenames]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        begun = {page.path: pool.submit(begin, page) for page in FOLLOWED if page in asked and not page.alone}

        def result(page):
            if page.alone:
                wait(begun.values())
                return begin(page)
            return begun[page.path].result()

        yield result
