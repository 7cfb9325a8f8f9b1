"""What is left to do for a version of Kubernetes, told by one command."""

import pytest

from tests import kubernetes_versions
from tests.cluster import binaries
from tests.kubernetes_versions import EXIT_LEFT, EXIT_UNKNOWN, main, steps


def test_for_a_version_that_nobody_has_touched_all_is_left_and_told_how(capsys):
    assert main("1.99") == EXIT_LEFT
    told = capsys.readouterr().out
    assert [step.is_so for step in steps("1.99")] == [False] * 6
    assert all(f"left  {step.what}\n        {step.how}\n" in told for step in steps("1.99"))


def test_for_the_version_of_ci_nothing_is_left_but_perhaps_its_build():
    assert [step.what for step in steps(binaries.DEFAULT) if not step.is_so] in ([], ["its executable is built"])


def test_the_readme_counts_as_naming_a_version_only_where_it_says_what_is_tested(monkeypatch, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("dra-reserve knows 1.99. It is tested on\nKubernetes 1.34 to 1.98. Kubernetes 1.99 is next.")
    monkeypatch.setattr(kubernetes_versions, "README", page)
    named = {
        version: next(each for each in steps(version) if "README" in each.what).is_so
        for version in ("1.97", "1.98", "1.99")
    }
    assert named == {"1.97": True, "1.98": True, "1.99": False}


@pytest.mark.parametrize("arguments", [(), ("",), ("latest",)], ids=["none", "empty", "no-version"])
def test_without_a_version_it_says_how_to_ask(capsys, arguments):
    assert main(*arguments) == EXIT_UNKNOWN
    assert "make kubernetes VERSION=" in capsys.readouterr().err
