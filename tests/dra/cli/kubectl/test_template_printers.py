"""Templates of kubectl's users."""

import pytest

from dra.cli.kubectl.template_printers import (
    CustomColumns,
    JsonPath,
    JsonPathTemplate,
    MalformedTemplateError,
    sort_key,
)
from tests.violations import for_each_case

CONTENT = {
    "items": [
        {"metadata": {"name": "a"}, "pods": 3, "devices": ["g0", "g1"], "labels": {"x.y/z": "1"}, "ok": True},
        {"metadata": {"name": "b"}, "pods": 0, "devices": []},
    ]
}


@for_each_case(
    [
        pytest.param("{.items[*].metadata.name}", "a b", id="many-with-blanks-between"),
        pytest.param(".items[0].metadata.name", "a", id="without-braces"),
        pytest.param('{range .items[*]}{.metadata.name}{"\\t"}{.pods}{"\\n"}{end}', "a\t3\nb\t0\n", id="range"),
        pytest.param("{range .items[*]}{range .devices[*]}<{@}>{end};{end}", "<g0><g1>;;", id="range-in-range"),
        pytest.param("{.items[?(@.pods>1)].metadata.name}", "a", id="filter"),
        pytest.param('{.items[?(@.metadata.name=="b")].pods}', "0", id="filter-by-text"),
        pytest.param("{.items[-1:].metadata.name}", "b", id="slice"),
        pytest.param("{..name}", "a b", id="deep"),
        pytest.param("{.items[0].labels.x\\.y/z}", "1", id="escaped-dot"),
        pytest.param("{.items[0].labels['x.y/z']}", "1", id="quoted"),
        pytest.param("{.items[0].devices}", '["g0","g1"]', id="data-as-json"),
        pytest.param("{.items[0].ok}", "true", id="yes"),
        pytest.param("n={.items[5].metadata.name}!", "n=!", id="what-is-missing-is-empty"),
        pytest.param("{$.items[0].metadata.name}", "a", id="root"),
    ]
)
def test_a_template_is_filled_as_kubectl_does(template, text):
    assert JsonPathTemplate.parse(template)(CONTENT) == text


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{.a", "unbalanced brace", id="open"),
        pytest.param("{range .a}{.b}", "without {end}", id="range-without-end"),
        pytest.param("{.a}{end}", "without {range}", id="end-without-range"),
        pytest.param("{.a .b}", "one path", id="two-paths"),
        pytest.param("{.a['b','c']}", "unions are not supported", id="union"),
        pytest.param("{.a[}", "cannot be understood", id="no-path"),
    ],
)
def test_what_cannot_be_understood_is_refused(template, expected):
    with pytest.raises(MalformedTemplateError, match=expected):
        JsonPathTemplate.parse(template)


def test_columns_have_headers_and_say_what_is_missing():
    columns = CustomColumns.parse("NAME:.metadata.name,DEVICES:.devices[*],ODD:.labels['x.y/z']")
    assert columns.header == ("NAME", "DEVICES", "ODD")
    assert [columns.row(each) for each in CONTENT["items"]] == [("a", "g0,g1", "1"), ("b", "<none>", "<none>")]


@pytest.mark.parametrize("text", ["NAME", "NAME:", ":.a", "A:.a,,B:.b"])
def test_columns_without_a_path_are_refused(text):
    with pytest.raises(MalformedTemplateError):
        CustomColumns.parse(text)


def test_numbers_are_sorted_as_numbers_and_what_is_missing_comes_first():
    things = [{"n": 10}, {"n": 9}, {}, {"n": "x"}]
    assert sorted(things, key=lambda each: sort_key(JsonPath.parse(".n"), each)) == [
        {},
        {"n": 9},
        {"n": 10},
        {"n": "x"},
    ]
