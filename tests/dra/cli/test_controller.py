import pytest
from click import ClickException

from dra.api.configuration import ControllerConfiguration, ControllerMode
from dra.cli.controller import read_configuration


def test_without_a_file_the_defaults_hold():
    assert read_configuration(None, mode=None) == ControllerConfiguration()


def test_the_command_line_has_the_last_word_on_the_mode(tmp_path):
    path = tmp_path / "configuration.yaml"
    path.write_text("mode: replace\nqps: 5\n")
    chosen = read_configuration(path, mode="alongside")
    assert (chosen.mode, chosen.qps) == (ControllerMode.ALONGSIDE, 5.0)


@pytest.mark.parametrize("text", ["", "---\n", "# nothing set\n"])
def test_an_empty_file_sets_nothing(tmp_path, text):
    path = tmp_path / "configuration.yaml"
    path.write_text(text)
    assert read_configuration(path, mode=None) == ControllerConfiguration()


def test_all_mistakes_are_told_at_once(tmp_path):
    path = tmp_path / "configuration.yaml"
    path.write_text("mode: both\nqps: -1\n")
    with pytest.raises(ClickException) as refused:
        read_configuration(path, mode=None)
    assert refused.value.message.startswith(f"configuration {path}: mode: ")
    assert "; qps: " in refused.value.message
