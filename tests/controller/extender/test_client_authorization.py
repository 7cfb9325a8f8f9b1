"""The names of a certificate."""

import pytest

from controller.extender.client_authorization import certificate_names

SUBJECT = (("organizationName", "org"),), (("commonName", "scheduler"),)


@pytest.mark.parametrize(
    ("certificate", "found"),
    [
        pytest.param(None, set(), id="none-was-shown"),
        pytest.param({}, set(), id="it-was-not-verified"),
        pytest.param({"subject": SUBJECT}, {"scheduler"}, id="common-name"),
        pytest.param(
            {"subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://b"), ("DNS", "c.example"))},
            {"a.example", "c.example"},
            id="dns-names-and-no-others",
        ),
        pytest.param({"subject": SUBJECT, "subjectAltName": (("DNS", "a"),)}, {"scheduler", "a"}, id="both"),
    ],
)
def test_names_are_the_common_name_and_the_dns_names(certificate, found):
    assert certificate_names(certificate) == found
