import pytest

from dra.model.resource_versions import is_newer, list_covers
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param("10", "9", True, id="numbers-not-texts"),
        pytest.param("9", "10", False, id="earlier"),
        pytest.param("9", "9", False, id="the-same"),
        pytest.param("b", "a", True, id="no-number"),
        pytest.param("a", "b", True, id="no-number-and-another"),
        pytest.param("a", "a", False, id="no-number-and-the-same"),
        pytest.param("9", "", True, id="none-known"),
        pytest.param("", "", False, id="none-at-all"),
    ]
)
def test_the_order_of_two_versions(version, known, expected):
    assert is_newer(version, known) is expected


@pytest.mark.parametrize(
    ("listed", "version", "expected"),
    [
        pytest.param("10", "9", True, id="list-is-later"),
        pytest.param("9", "9", True, id="list-is-as-late"),
        pytest.param("9", "10", False, id="list-is-earlier"),
        pytest.param("b", "9", False, id="list-without-a-number"),
        pytest.param("9", "b", False, id="object-without-a-number"),
    ],
)
def test_whether_a_list_tells_of_a_version(listed, version, expected):
    assert list_covers(listed, version) is expected
