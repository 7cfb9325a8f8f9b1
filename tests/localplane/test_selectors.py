"""Selectors: upstream's grammar, and its complaints."""

import pytest

from localplane.kinds.kind import Kind, Strategy
from localplane.selectors import parse_selectors
from localplane.status_errors import StatusError
from tests.violations import for_each_case

PLAIN = Kind(plural="things", name="Thing")


class Colourful(Strategy):
    def selectable_fields(self, obj):
        return {"spec.colour": obj["spec"].get("colour", "")}


COLOURFUL = Kind(plural="things", name="Thing", strategy=Colourful())

LABELS = {"app": "web", "tier": "front", "n": "5"}


@for_each_case(
    [
        pytest.param("", True, id="everything"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app == web , tier=front", True, id="all-must-hold"),
        pytest.param("app=web,tier=back", False, id="one-does-not-hold"),
        pytest.param("app!=web", False, id="not-equal"),
        pytest.param("nope!=web", True, id="not-equal-holds-without-the-label"),
        pytest.param("app in (db, web)", True, id="in"),
        pytest.param("app notin (db,web)", False, id="notin"),
        pytest.param("nope notin (a)", True, id="notin-holds-without-the-label"),
        pytest.param("app", True, id="exists"),
        pytest.param("!app", False, id="does-not-exist"),
        pytest.param("!nope", True, id="is-not-there"),
        pytest.param("n>4", True, id="greater"),
        pytest.param("n<5", False, id="less"),
        pytest.param("app>4", False, id="no-number"),
        pytest.param("nope=", False, id="an-empty-value-is-a-value"),
        pytest.param("in in (in)", False, id="in-may-be-a-name"),
        pytest.param("app in (,web)", True, id="an-empty-value-in-a-set"),
    ],
)
def test_labels_are_selected(text, selected):
    assert parse_selectors(PLAIN, text, "").matches(LABELS, {}) is selected


@for_each_case(
    [
        ("!!", "unable to parse requirement: found '!', expected: identifier"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in ()", "unable to parse requirement: values: Invalid value: []: "),
        ("a in (b", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value"),
        ("a=-", 'unable to parse requirement: values[0]: Invalid value: "-": a valid label must be'),
        ("-a", 'unable to parse requirement: key: Invalid value: "-a": name part must consist of'),
        ("(", "found '(', expected: !, identifier, or 'end of string'"),
    ]
)
def test_what_is_no_label_selector_is_refused_in_upstreams_words(text, fault):
    with pytest.raises(StatusError) as refused:
        parse_selectors(PLAIN, text, "")
    assert refused.value.code == 400
    assert refused.value.message.startswith(fault)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("metadata.name=a", True),
        ("metadata.name==a,spec.colour!=blue", True),
        ("spec.colour=blue", False),
        (r"spec.colour=re\,d\=", True),
        ("metadata.namespace!=x,", True),
    ],
)
def test_fields_are_selected(text, selected):
    fields = {"metadata.name": "a", "metadata.namespace": "", "spec.colour": "re,d="}
    assert parse_selectors(COLOURFUL, "", text).matches({}, fields) is selected


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        (COLOURFUL, "spec.nope=1", "field label not supported: spec.nope"),
        (
            PLAIN,
            "spec.nope=1",
            '"spec.nope" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (PLAIN, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (PLAIN, r"metadata.name=\a", r"invalid field selector: invalid escape sequence: \a"),
        (PLAIN, "metadata.name=a=b", "invalid field selector: unescaped character in value: ="),
    ],
)
def test_what_is_no_field_selector_is_refused(kind, text, fault):
    with pytest.raises(StatusError) as refused:
        parse_selectors(kind, "", text)
    assert (refused.value.code, refused.value.message) == (400, fault)
