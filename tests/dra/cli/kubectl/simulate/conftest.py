"""The command on a bundle, with manifests in a file."""

import json

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots import bundle_file
from tests.dra.engine.diagnosis.cluster_states import snapshot


@pytest.fixture
def run(tmp_path):
    """Run the command and return the result of click."""

    def run(*manifests, cluster=None, options=()):
        bundle_file.write_bundle(cluster or snapshot(), tmp_path / "b.tgz")
        (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(manifests))
        command = ["simulate", f"--filename={tmp_path}/m.yaml", f"--from={tmp_path}/b.tgz", "--namespace=ml", *options]
        return CliRunner().invoke(main, command)

    return run


@pytest.fixture
def simulate(run):
    def simulate(*manifests, cluster=None, options=()):
        done = run(*manifests, cluster=cluster, options=(*options, "--output=json"))
        if done.exit_code == 2:
            return done
        assert done.exit_code in (0, 1, 3), (done.output, done.exception)
        found = {each["metadata"]["name"]: each for each in json.loads(done.stdout)["items"]}
        verdicts = {each.get("verdict", "Scheduled" if each["placed"] else "Pending") for each in found.values()}
        assert done.exit_code == (1 if verdicts & {"Pending", "Refused"} else 3 if "Undecided" in verdicts else 0)
        return found

    return simulate
