"""Which requests the page answers."""

import pytest

from dra.cli.page.access import AccessRules, known_views, loopback_hosts
from tests.violations import for_each_case

SECRET = "s" * 43
RULES = AccessRules(hosts=loopback_hosts(8080), secret=SECRET)
GOOD = {"Host": "127.0.0.1:8080", "Authorization": f"Bearer {SECRET}"}


@for_each_case(
    [
        pytest.param({}, None, id="the-key-suffices"),
        pytest.param({"Host": "localhost:8080"}, None, id="localhost"),
        pytest.param({"Host": "LOCALHOST:8080"}, None, id="host-names-ignore-case"),
        pytest.param({"Host": "evil.example:8080"}, 421, id="a-name-that-was-bound-to-loopback"),
        pytest.param({"Host": "127.0.0.1:8081"}, 421, id="another-port"),
        pytest.param({"Host": ""}, 421, id="no-host"),
        pytest.param({"Origin": "http://127.0.0.1:8080"}, None, id="our-origin"),
        pytest.param({"Origin": "http://evil.example"}, 403, id="another-origin"),
        pytest.param({"Origin": "null"}, 403, id="a-sandboxed-frame"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, None, id="same-origin"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="cross-site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="another-port-of-this-machine"),
        pytest.param({"Authorization": ""}, 401, id="no-key"),
        pytest.param({"Authorization": f"Bearer {SECRET[:-1]}x"}, 401, id="a-wrong-key"),
        pytest.param({"Authorization": SECRET}, 401, id="no-scheme"),
        pytest.param({"Authorization": "Bearer ä"}, 401, id="a-key-that-is-no-ascii"),
        pytest.param({"Authorization": "Bearer \udcff"}, 401, id="a-key-that-is-no-text"),
    ]
)
def test_a_request_for_data_is_refused(headers, status):
    refusal = RULES.refusal({**GOOD, **headers}, is_data=True)
    assert (refusal.status if refusal else None) == status


def test_files_need_no_key_and_may_be_opened_from_anywhere():
    headers = {"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "cross-site"}
    assert RULES.refusal(headers, is_data=False) is None


def test_files_too_are_served_under_our_name_only():
    assert RULES.refusal({"Host": "evil.example"}, is_data=False).status == 421


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("claims", {"claims"}, id="one"),
        pytest.param("claims,devices", {"claims", "devices"}, id="two"),
        pytest.param("claims,", {"claims"}, id="a-comma-at-the-end"),
        pytest.param("", None, id="none"),
        pytest.param("claims,secrets", None, id="an-unknown-view"),
    ],
)
def test_views_of_a_query(text, found):
    assert known_views(text, all_views={"claims", "devices"}) == found
