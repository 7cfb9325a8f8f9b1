"""Manifests come from anywhere: one that is made to end the program ends the command, with a sentence."""

import pytest

from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.manifests import LEVELS_MAX, VALUES_MAX, load_documents


def laughs(*, times=10, rounds=9):
    """A few lines that stand for ``times ** rounds`` values."""
    lines = [f"a0: &a0 [{','.join('x' * times)}]"]
    lines += [f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * times)}]" for n in range(rounds)]
    return "\n".join(lines)


def chain(links):
    """Lists in lists, though no line is nested."""
    return "\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [*a{n}]" for n in range(links))])


def read(tmp_path, text):
    file = tmp_path / "m.yaml"
    file.write_text(text)
    return list(load_documents([str(file)]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[" * 100_000, f"nested more than {LEVELS_MAX} levels deep", id="lists-in-lists"),
        pytest.param("{a: " * 100_000, f"nested more than {LEVELS_MAX} levels deep", id="maps-in-maps"),
        pytest.param(chain(5_000), f"nested more than {LEVELS_MAX} levels deep", id="aliases-in-a-row"),
        pytest.param(laughs(), f"expand to more than {VALUES_MAX:,} values", id="a-billion-laughs"),
        pytest.param("a: &a [*a]", "a YAML alias refers to itself", id="a-circle"),
        pytest.param("a: &a {b: &b [*a]}", "a YAML alias refers to itself", id="a-greater-circle"),
        pytest.param("a: [", "not valid YAML", id="half-a-list"),
        pytest.param("a: !!python/object:os.system x", "not valid YAML", id="a-program"),
    ],
)
def test_what_would_end_the_program_ends_the_command(tmp_path, text, expected):
    with pytest.raises(FailedError, match=expected):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("---\n---\na: 1\n", [None, {"a": 1}], id="several"),
        pytest.param("a: &x {b: c}\nd: *x\n", [{"a": {"b": "c"}, "d": {"b": "c"}}], id="aliases"),
        pytest.param("a: &x {b: c}\nd: {<<: *x, e: f}\n", [{"a": {"b": "c"}, "d": {"b": "c", "e": "f"}}], id="merged"),
    ],
)
def test_what_people_write_is_read(tmp_path, text, found):
    assert read(tmp_path, text) == found


def test_as_deep_as_it_may_be(tmp_path):
    read(tmp_path, "[" * LEVELS_MAX + "]" * LEVELS_MAX)
