"""The functions of Kubernetes in CEL."""

import pytest
from cel_expr_python import cel

from dra.cel.expressions import EvaluationError, Expression, MalformedExpressionError, environment
from tests.violations import for_each_case

ANYTHING = environment({"self": cel.Type.DYN})


def value(text, data=None):
    return Expression(text, ANYTHING).evaluate({"self": data})


@for_each_case(
    [
        ("quantity('1.5Gi').compareTo(quantity('1536Mi'))", None, 0),
        ("quantity('500m').isLessThan(quantity('1'))", None, True),
        ("quantity('1').add(2).sub(quantity('500m')) == quantity('2500m')", None, True),
        ("quantity('50k').asInteger()", None, 50_000),
        ("quantity('1500m').isInteger()", None, False),
        ("quantity('1500m').asApproximateFloat()", None, 1.5),
        ("isQuantity('1.2.3')", None, False),
        ("quantity('-1').sign()", None, -1),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", None, True),
        ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", None, True),
        ("semver('v01.2', true) == semver('1.2.0')", None, True),
        ("isSemver('v1.2')", None, False),
        ("semver('1.2.3').minor()", None, 2),
        ("url('https://user@example.com:80/a%20b?x=1&y=a+b&x=2').getHost()", None, "example.com:80"),
        ("url('https://example.com:80/').getPort()", None, "80"),
        ("url('https://[::1]:80/').getHostname()", None, "::1"),
        ("url('https://example.com/?x=1&y=a+b&x=2').getQuery()", None, {"x": ["1", "2"], "y": ["a b"]}),
        ("isURL('not a url')", None, False),
        ("ip('10.0.0.1').family()", None, 4),
        ("ip.isCanonical('2001:DB8::1')", None, False),
        ("cidr('10.0.0.0/8').containsIP('10.1.1.1')", None, True),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", None, True),
        ("isCIDR('10.0.0.1')", None, False),
        ("self.isSorted()", [1, 2, 2], True),
        ("[1, 2, 3].sum()", None, 6),
        ("self.indexOf('b')", ["a", "b", "b"], 1),
        ("self.lastIndexOf('b')", ["a", "b", "b"], 2),
        ("[3, 1].min() + [3, 1].max()", None, 4),
        ("sets.contains([1, 2], [1])", None, True),
        ("sets.equivalent([1, 2, 2], [2, 1])", None, True),
        ("'a,b'.split(',').size()", None, 2),
        ("self.?a.orValue(5)", {}, 5),
        ("math.greatest(1, 2)", None, 2),
        ("cel.bind(x, self + 1, x * x)", 2, 9),
        ("'%s is %d'.format(['a', 1])", None, "a is 1"),
    ],
)
def test_what_a_function_means(text, data, expected):
    assert value(text, data) == expected


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("self.a", {}, "no such key: a"),
        ("self[3]", [1], "index out of bounds: 3"),
        ("self / 0", 1, "division by zero"),
        ("self + 1", "a", "no such overload"),
        ("quantity('1').compareTo(semver('1.0.0'))", None, "no such overload"),
        ("[].min()", None, "min called on empty list"),
    ],
)
def test_a_failure_is_told_in_the_words_of_cel_go(text, data, words):
    with pytest.raises(EvaluationError, match=words):
        value(text, data)


@pytest.mark.parametrize("text", ["self.", "nothing(1)", "quantity(1)", "url('x').getPort(1)"])
def test_what_cannot_be_compiled_says_where(text):
    with pytest.raises(MalformedExpressionError, match="ERROR: <input>:1:"):
        Expression(text, ANYTHING)
