"""Texts of the formats, as the real server words them."""

import pytest

from dra.local.kinds import names
from dra.local.kinds.names import Naming

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


@pytest.mark.parametrize(
    ("check", "text", "faults"),
    [
        pytest.param(names.label, "gpu-0", [], id="label"),
        pytest.param(
            names.label,
            "Gpu",
            [LABEL_FAULT],
            id="label-with-capitals",
        ),
        pytest.param(names.subdomain, "a.b-c", [], id="subdomain"),
        pytest.param(names.subdomain, "a" * 254, ["must be no more than 253 characters"], id="subdomain-too-long"),
        pytest.param(
            names.subdomain,
            "Bad_Name",
            [SUBDOMAIN_FAULT],
            id="golden-invalid-name",
        ),
        pytest.param(names.key, "example.com/a", [], id="key"),
        pytest.param(names.key, "/a", ["prefix part must be non-empty"], id="key-without-domain"),
        pytest.param(names.label_value, "", [], id="empty-value"),
        pytest.param(names.c_name, "driverVersion", [], id="attribute"),
        pytest.param(names.semver, "1.2.3-rc.1+b", [], id="semver"),
        pytest.param(names.semver, "1.2", ["must be a string compatible with semver.org spec 2.0.0"], id="no-semver"),
        pytest.param(names.segment, "system:node", [], id="role"),
        pytest.param(names.segment, "a/b", ["may not contain '/'"], id="role-with-slash"),
    ],
)
def test_faults_of_a_text(check, text, faults):
    assert check(text) == faults


def test_a_prefix_may_end_as_no_name_may():
    assert Naming.SUBDOMAIN.faults("a-", prefix=True) == []
    assert Naming.SUBDOMAIN.faults("a-") != []
