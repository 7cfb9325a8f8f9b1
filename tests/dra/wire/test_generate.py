"""Generated code is checked in: it must be what the .proto files beside it make."""

import shutil

import pytest

from dra.wire import generate


def test_the_generated_files_are_those_of_the_proto_files():
    assert generate.stale_files() == ()


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(generate.ROOT / generate.FOLDER, tmp_path / generate.FOLDER)
    return tmp_path


def edit(path):
    path.write_text(path.read_text().replace("share_id", "part_id"))


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        pytest.param(
            lambda folder: edit(folder / "plugin_v1.proto"),
            [
                "plugin_v1_pb2.py: plugin_v1.proto has changed since it was made; run: python -m dra.wire.generate",
                "plugin_v1_pb2.pyi: plugin_v1.proto has changed since it was made; run: python -m dra.wire.generate",
            ],
            id="source-edited",
        ),
        pytest.param(
            lambda folder: edit(folder / "plugin_v1_pb2.pyi"),
            ["plugin_v1_pb2.pyi: edited by hand; run: python -m dra.wire.generate"],
            id="generated-file-edited",
        ),
        pytest.param(
            lambda folder: (folder / "serving_v1_pb2.py").unlink(),
            ["serving_v1_pb2.py: missing; run: python -m dra.wire.generate"],
            id="generated-file-missing",
        ),
        pytest.param(
            lambda folder: (folder / "old_v1_pb2.py").touch(),
            ["old_v1_pb2.py: no .proto file makes it; remove it"],
            id="source-gone",
        ),
    ],
)
def test_drift_is_told_by_file(copy, change, sentences):
    change(copy / generate.FOLDER)
    assert list(generate.stale_files(copy)) == sentences


def test_a_compiler_that_writes_something_else_is_not_trusted():
    with pytest.raises(ValueError, match=r"_descriptor_pool\.Default\(\) is not where it was"):
        generate.with_own_pool("DESCRIPTOR = something_new()\n")


def test_outside_of_a_checkout_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(generate, "COMPILER", tmp_path / "wire.txt")
    with pytest.raises(SystemExit, match=r"wire\.txt: missing; run this in a checkout"):
        generate.main()
