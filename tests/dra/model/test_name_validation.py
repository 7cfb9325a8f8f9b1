"""Texts of the formats, as the real server words them."""

import pytest

from dra.model import name_validation
from dra.model.name_validation import NameFormat
from tests.violations import for_each_case

LABEL_FAULT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_FAULT = (  # recorded from the real server
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@for_each_case(
    [
        pytest.param(name_validation.dns1123_label, "gpu-0", [], id="label"),
        pytest.param(
            name_validation.dns1123_label,
            "Gpu",
            [LABEL_FAULT],
            id="label-with-capitals",
        ),
        pytest.param(name_validation.dns1123_subdomain, "a.b-c", [], id="subdomain"),
        pytest.param(
            name_validation.dns1123_subdomain,
            "a" * 254,
            ["must be no more than 253 characters"],
            id="subdomain-too-long",
        ),
        pytest.param(
            name_validation.dns1123_subdomain,
            "Bad_Name",
            [SUBDOMAIN_FAULT],
            id="golden-invalid-name",
        ),
        pytest.param(name_validation.qualified_name, "example.com/a", [], id="key"),
        pytest.param(name_validation.qualified_name, "/a", ["prefix part must be non-empty"], id="key-without-domain"),
        pytest.param(name_validation.label_value, "", [], id="empty-value"),
        pytest.param(name_validation.c_identifier, "driverVersion", [], id="attribute"),
        pytest.param(name_validation.semver, "1.2.3-rc.1+b", [], id="semver"),
        pytest.param(
            name_validation.semver, "1.2", ["must be a string compatible with semver.org spec 2.0.0"], id="no-semver"
        ),
        pytest.param(name_validation.path_segment, "system:node", [], id="role"),
        pytest.param(name_validation.path_segment, "a/b", ["may not contain '/'"], id="role-with-slash"),
    ]
)
def test_faults_of_a_text(check, text, faults):
    assert check(text) == faults


def test_a_prefix_may_end_as_no_name_may():
    assert NameFormat.SUBDOMAIN.errors("a-", prefix=True) == []
    assert NameFormat.SUBDOMAIN.errors("a-") != []
