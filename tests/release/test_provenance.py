"""The statement of provenance: files and image as subjects, commit, base and locks as materials."""

import pytest

from release.project import ROOT, Project
from release.provenance import LOCKS, Build, builder, statement

PROJECT = Project(name="dra-reserve", version="1.2.3", source="https://a/b", image="r/i", charts="r/c")
BUILD = Build(commit="c" * 40, base=f"python:3.13@sha256:{'b' * 64}", locks={"lock.txt": "1" * 64}, builder="https://x")
MADE = statement(PROJECT, BUILD, files={"b.tgz": "2" * 64, "a.whl": "3" * 64}, digest="sha256:" + "d" * 64)


def test_the_form_is_that_of_in_toto_and_slsa():
    assert MADE["_type"] == "https://in-toto.io/Statement/v1"
    assert MADE["predicateType"] == "https://slsa.dev/provenance/v1"
    assert set(MADE["predicate"]) == {"buildDefinition", "runDetails"}


def test_subjects_are_the_files_and_the_image():
    assert MADE["subject"] == [
        {"name": "a.whl", "digest": {"sha256": "3" * 64}},
        {"name": "b.tgz", "digest": {"sha256": "2" * 64}},
        {"name": "r/i", "digest": {"sha256": "d" * 64}},
    ]


def test_materials_are_the_commit_the_base_and_the_locks():
    materials = MADE["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [each["digest"] for each in materials] == [
        {"gitCommit": "c" * 40},
        {"sha256": "b" * 64},
        {"sha256": "1" * 64},
    ]
    assert materials[0]["uri"] == "git+https://a/b@refs/tags/v1.2.3"
    assert materials[1]["uri"] == "pkg:docker/python@3.13"


def test_locks_are_files_of_the_tree():
    assert [name for name in LOCKS if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {
                "GITHUB_WORKFLOW_REF": "a/b/.github/workflows/release.yaml@refs/tags/v1",
                "GITHUB_SERVER_URL": "https://h",
            },
            "https://h/a/b/.github/workflows/release.yaml@refs/tags/v1",
            id="workflow",
        ),
        pytest.param({}, "https://a/b/blob/v1.2.3/docs/design/releasing.md#on-your-machine", id="laptop"),
    ],
)
def test_the_builder_is_the_workflow_or_a_machine_of_a_person(environment, expected):
    assert builder(environment, PROJECT) == expected
