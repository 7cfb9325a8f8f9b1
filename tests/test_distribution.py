"""The wheel and the sdist as users get them: everything is inside, and the commands need no checkout.

`make dist` sets DRA_DISTRIBUTION to the folder that it has written; otherwise both files are built here.
"""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import urllib.parse
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from release import distribution, sbom
from tests.cluster.waiting import until
from tests.pages.following import followed
from tests.pages.register import INSTALLED, Page

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DATA = "dra/package_data"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist and the wheel."""
    if "DRA_DISTRIBUTION" in os.environ:
        folder = Path(os.environ["DRA_DISTRIBUTION"])
        return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))
    return distribution.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The commands of a clean environment that has the wheel, with the locked versions of what the wheel needs."""
    place = tmp_path_factory.mktemp("clean")
    locked = sbom.pinned((ROOT / "requirements" / "runtime.txt").read_text())
    (place / "locked.txt").write_text("".join(f"{each.name}=={each.version}\n" for each in locked))
    venv.create(place / "venv", with_pip=True)
    command = [place / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command.append("--no-compile")  # most modules of what the wheel needs are never imported
    subprocess.run([*command, f"--constraint={place / 'locked.txt'}", str(built[1])], check=True, timeout=300)
    return place / "venv/bin"


@pytest.fixture(scope="module")
def environment(installed, tmp_path_factory):
    """The environment of a user who has nothing but the commands of the package, and kubectl."""
    kubectl = shutil.which("kubectl")
    folders = [installed, *([Path(kubectl).parent] if kubectl else []), "/usr/bin", "/bin"]
    return {"PATH": ":".join(map(str, folders)), "HOME": str(tmp_path_factory.mktemp("home")), "LANG": "C.UTF-8"}


@pytest.fixture(scope="module", autouse=True)
def demo(installed, tmp_path_factory):
    """A small demo, which runs beside the other tests: most of its time it waits for a minute to pass."""
    folder = tmp_path_factory.mktemp("demo")
    process = subprocess.Popen(
        [installed / "dra-reserve", "demo", "--pods=8", "--seconds=0.3"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=60)


@pytest.fixture
def run(environment, tmp_path):
    """Run a command in an empty folder, where nothing of this tree can be found."""

    return lambda *words, code=0: typed(words, tmp_path, environment, code=code)


def typed(words, folder, environment, *, code=0):
    """Run a command and return what it prints."""
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)  # noqa: PLW1510 - the exit code is compared
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_sdist_has_what_the_wheel_is_built_from_and_no_link(built):
    with tarfile.open(built[0]) as archive:
        assert [each.name for each in archive if not each.isfile()] == []
        names = {each.name.partition("/")[2] for each in archive}
    assert {"pyproject.toml", "hatch_build.py", "LICENSE", "deploy/downgrade-checklist.sh"} <= names
    assert not fnmatch.filter(names, "tests/*")


@pytest.mark.parametrize("folder", ["crds", "deploy", "examples"])
def test_the_wheel_has_each_file_that_users_need(built, folder):
    names = {each.removeprefix(f"{DATA}/") for each in zipfile.ZipFile(built[1]).namelist()}
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    left_out = (
        "deploy/Containerfile",
        "deploy/kind/*",
        "deploy/kustomize/kind/*",
        "deploy/helm/*/files/*",  # links: the next test
    )
    wanted = {each for each in listed.split() if not any(fnmatch.fnmatch(each, pattern) for pattern in left_out)}
    assert wanted - names == set()


def test_the_chart_of_the_wheel_has_the_manifests_that_are_links_in_the_tree(built):
    names = zipfile.ZipFile(built[1]).namelist()
    for link in (ROOT / "deploy/helm/dra-reserve/files").iterdir():
        assert fnmatch.filter(names, f"{DATA}/deploy/helm/dra-reserve/files/{link.name}/*.yaml"), link


def test_the_index_shows_no_link_that_leads_nowhere(built):
    archive = zipfile.ZipFile(built[1])
    (name,) = fnmatch.filter(archive.namelist(), "*.dist-info/METADATA")
    text = archive.read(name).decode()
    assert "Project-URL: Source, https://" in text
    assert "](https://github.com/dra-reserve/dra-reserve/blob/main/docs/how-to/troubleshooting.md)" in text
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", text) == []


def test_the_wheel_has_the_licences_of_all_that_is_in_it(built):
    archive = zipfile.ZipFile(built[1])
    (folder,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    metadata = archive.read(f"{folder}/METADATA").decode()
    assert "License-Expression: Apache-2.0 AND MIT\n" in metadata
    licences = {name for name in archive.namelist() if name.startswith(f"{folder}/licenses/")}
    vendored = "dra/cli/page/static/vendor"
    assert licences == {
        f"{folder}/licenses/{name}"
        for name in ("LICENSE", "NOTICE", f"{vendored}/preact.LICENSE", f"{vendored}/htm.LICENSE")
    }
    assert "Preact" in archive.read(f"{folder}/licenses/NOTICE").decode()


def test_nothing_but_packages_is_installed(built):
    names = zipfile.ZipFile(built[1]).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "controller",
        "dra",
        "kubeletplugin",
        "localplane",
    }


@pytest.mark.parametrize(
    "command", ["dra-reserve --version", "kubectl-dra --help", "dra-reserve demo --help", "dra-reserve controller -h"]
)
def test_each_command_starts(run, command):
    assert run(*command.split())


def test_the_packages_of_a_node_are_an_extra(installed, run):
    names = subprocess.run(
        [installed / "python", "-m", "pip", "list"], capture_output=True, text=True, check=True
    ).stdout
    assert "grpcio" not in names
    assert "nvidia" not in names
    run("dra-reserve", "kubelet-plugin", code=1)


def test_manifests_are_printed_for_kubectl(run):
    assert "kubelet-plugin-nvidia" in run("dra-reserve", "manifests")
    for name in ("alongside", "replace", "reservations", "descheduler", "kubelet-plugin", "koordinator", "crds"):
        assert list(yaml.safe_load_all(run("dra-reserve", "manifests", name)))


def test_manifests_are_written_to_be_edited(run, tmp_path):
    run("dra-reserve", "manifests", "--to", "here")
    assert (tmp_path / "here/deploy/helm/dra-reserve/files/crds/kustomization.yaml").is_file()
    done = subprocess.run(
        ["sh", "here/deploy/downgrade-checklist.sh", "--help"],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, "pip install PATH/dra_reserve-" in done.stderr) == (2, True)


def test_examples_are_printed_and_written(run, tmp_path):
    assert "shared-claim" in run("dra-reserve", "examples")
    run("dra-reserve", "examples", "shared-claim", "--to", ".")
    assert (tmp_path / "examples/shared-claim/claim.yaml").read_text() == run(
        "dra-reserve", "examples", "shared-claim/claim.yaml"
    )


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")

TUTORIAL = "docs/tutorial/first-claim.md"


@needs_kubectl
def test_the_tutorial_is_followed_in_an_empty_folder(run, environment, tmp_path):
    (line,) = re.findall(r"^(dra-reserve examples .*?)  # not run here", (ROOT / TUTORIAL).read_text(), re.MULTILINE)
    run(*shlex.split(line))
    try:
        assert list(followed(Page(TUTORIAL, INSTALLED), environment | {"PYTHONPATH": ""}, tmp_path)) == []
    finally:
        if (tmp_path / ".dra-tutorial").exists():
            run("dra-reserve", "local", "down", "--folder=.dra-tutorial")


@pytest.fixture(scope="module")
def plane(environment, tmp_path_factory):
    """A plane of the package's own command, as the pages of the examples show it; yields the environment for it."""
    folder = tmp_path_factory.mktemp("plane")
    typed(("dra-reserve", "local", "up", "--detach", "--api=stock", "--nodes=3", "--devices=4"), folder, environment)
    yield environment | {"PYTHONPATH": "", "KUBECONFIG": str(folder / ".dra/kubeconfig")}
    typed(("dra-reserve", "local", "down"), folder, environment)


@needs_kubectl
def test_three_examples_are_followed_in_an_empty_folder(run, plane, tmp_path):
    for name in ("cpus", "jobset", "reserve-devices"):
        run("dra-reserve", "examples", name, "--to", ".")
        assert list(followed(Page(f"examples/{name}/README.md"), plane, tmp_path)) == []


ADDITIONS = (
    "reservations,descheduler,koordinator,annotate-nodes,gate,"
    "kubelet-plugin,koordinator-devices,claim-status,node-topology"
)


def test_an_installation_is_planned_and_made_and_a_downgrade_checked(run, plane):
    config = f"--kubeconfig={plane['KUBECONFIG']}"
    for mode in ("alongside", "replace"):
        assert " create" in run("kubectl-dra", "install", config, "--dry-run", f"--mode={mode}")
    assert " create" in run("kubectl-dra", "install", config, "--dry-run", f"--with={ADDITIONS}")
    run("kubectl-dra", "install", config, "--yes", "--image=registry.example.com/dra-reserve:1")
    again = run("kubectl-dra", "install", config, "--yes")
    assert (" unchanged" in again, " create" in again) == (True, False)
    assert "no policy makes pods wait" in run("kubectl-dra", "downgrade", config)
    run("dra-reserve", "examples", "training-job", "--to", ".")
    for name in ("claim.yaml", "job.yaml"):
        run("kubectl-dra", "apply", config, "-f", f"examples/training-job/{name}")
    run("kubectl-dra", "wait", config, "claim/train", "-n", "training", "--for=allocated", "--timeout=60s")
    assert "jobs.batch/train" in run("kubectl-dra", "explain", config, "claim", "train", "-n", "training")
    assert "kubectl dra downgrade --apply" in run("kubectl-dra", "downgrade", config, code=1)


def test_the_page_is_served_with_all_its_files(plane, tmp_path):
    with (tmp_path / "page.out").open("w+") as told:
        serving = subprocess.Popen(["kubectl-dra", "ui", "--no-browser"], env=plane, stdout=told, stderr=told)  # noqa: S607
        try:
            until(lambda: "http://" in (tmp_path / "page.out").read_text(), within=60, saying="the page is served")
            (address,) = re.findall(r"(http://[\w.:]+)/#", (tmp_path / "page.out").read_text())
            index = fetched(f"{address}/")
            names = re.findall(r'(?:href|src)="([^"]+)"', index)
            assert len(names) > 2
            left = [f"{address}/{name}" for name in names]
            seen = set()
            while left:
                seen.add(url := left.pop())
                imports = re.findall(r'from ?"(\./[^"]+|\.\./[^"]+)"', fetched(url)) if url.endswith(".mjs") else []
                left += {urllib.parse.urljoin(url, name) for name in imports} - seen
            assert {url.rpartition("/")[2] for url in seen} >= {"preact.mjs", "main.mjs", "page.css", "icon.svg"}
        finally:
            serving.terminate()
            serving.wait(timeout=30)


def fetched(url):
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - on the loopback address
        return answer.read().decode()


def test_the_demo_tells_its_story_to_the_end(demo):
    told, _ = demo.communicate(timeout=240)
    assert demo.returncode == 0, told
    assert told.count("no device was allocated twice, taken from a pod that used it, or leaked") == 2


def test_a_build_that_differs_is_an_error(monkeypatch, tmp_path):
    builds = iter(range(9))

    def hatchling(_source, target, into):
        into.mkdir(parents=True)
        made = into / target
        if target == "sdist":
            with tarfile.open(made, "w:gz") as archive:
                archive.add(ROOT / "LICENSE", arcname="dra_reserve/LICENSE")
        else:
            made.write_text(str(next(builds)))
        return made

    monkeypatch.setattr(distribution, "_hatchling", hatchling)
    with pytest.raises(distribution.DifferentWheelsError):
        distribution.build(tmp_path / "dist")
