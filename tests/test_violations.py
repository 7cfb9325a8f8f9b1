"""A test of a rule over many members fails with all members that break the rule, however many."""

import pytest

from tests.violations import assert_none, combinations, for_each, for_each_case, named


def short(word):
    assert len(word) < 3, "is long"


def test_all_members_pass():
    for_each(["a", "b"])(short)()


@pytest.mark.parametrize(
    ("check", "failure"),
    [
        pytest.param(short, "AssertionError: is long", id="assertion"),
        pytest.param(lambda word: {}[word], "KeyError: ", id="error"),
        pytest.param(lambda word: pytest.fail(f"no {word}"), "Failed: no ", id="failure"),
    ],
)
def test_every_member_that_fails_is_named(check, failure):
    words = [f"word-{n:02}" for n in range(40)]
    with pytest.raises(pytest.fail.Exception) as failed:
        for_each(words, name=lambda word: f"<{word}>")(check)()
    lines = str(failed.value).splitlines()
    assert [line.partition(": ")[0] for line in lines if line.startswith("<")] == [f"<{word}>" for word in words]
    assert all(failure in line for line in lines if line.startswith("<"))


def test_a_rule_without_members_fails():
    with pytest.raises(AssertionError, match="checks nothing"):
        for_each([])(short)()


def test_a_test_keeps_its_docstring_and_takes_no_fixture():
    def check(_):
        """Which fault there was."""

    merged = for_each(["a"])(check)
    assert merged.__doc__ == "Which fault there was."
    assert merged.__code__.co_argcount == 0


def test_no_violation_is_no_failure():
    assert_none([])
    with pytest.raises(pytest.fail.Exception, match="a\nb"):
        assert_none(["b", "a"])


def test_every_case_of_a_table_that_fails_is_named_by_its_id_or_its_values():
    def check(number, text):
        assert str(number) == text

    cases = [pytest.param(1, "2", id="one"), pytest.param(2, "2", id="two"), (3, "4")]
    with pytest.raises(pytest.fail.Exception) as failed:
        for_each_case(cases)(check)()
    lines = str(failed.value).splitlines()
    assert [line.partition(": ")[0] for line in lines if "AssertionError" in line] == ["3, '4'", "one"]


def test_a_case_may_be_one_value():
    for_each_case(["a", pytest.param("b", id="another"), ("c", "d")])(lambda value: value)()


def test_a_case_with_a_mark_is_refused():
    with pytest.raises(AssertionError, match="slow-one: a case of a merged test has no marks"):
        for_each_case([pytest.param(1, id="slow-one", marks=pytest.mark.slow)])(lambda number: number)


def test_every_combination_of_tables_is_a_case_with_the_names_of_its_parts():
    numbers, texts = [pytest.param(1, id="one"), pytest.param(2, id="two")], [("a", "b"), ("c", "d")]
    cases = combinations(numbers, texts, named([(3, 4)], ["pair"]))
    assert [case.id for case in cases] == [f"{n}-{t}-pair" for n in ("one", "two") for t in ("'a', 'b'", "'c', 'd'")]
    assert cases[-1].values == (2, "c", "d", (3, 4))
