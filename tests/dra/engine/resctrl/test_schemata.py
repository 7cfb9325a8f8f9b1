"""Text of schemata files, as kernels print it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.resctrl.schemata import (
    CACHES,
    SchemataError,
    SchemataResource,
    changed_domains,
    parse_schemata,
    print_line,
)
from tests.violations import for_each_case

L3, MB = SchemataResource.L3, SchemataResource.MB


@for_each_case(
    [
        pytest.param(
            "    MB:0=2048;1=  48\n    L3:0=007;1=007\n",
            {MB: {0: 2048, 1: 48}, L3: {0: 7, 1: 7}},
            id="padded-and-bandwidth-before-cache",
        ),
        pytest.param(
            "    L3:0=ffff;7=ffff;16=ffff;23=ffff\n",
            {L3: {0: 0xFFFF, 7: 0xFFFF, 16: 0xFFFF, 23: 0xFFFF}},
            id="sparse-ids-of-two-amd-sockets",
        ),
        pytest.param(
            "L3DATA:0=fffff;1=fffff\nL3CODE:0=fffff;1=3\n",
            {
                SchemataResource.L3_DATA: {0: 0xFFFFF, 1: 0xFFFFF},
                SchemataResource.L3_CODE: {0: 0xFFFFF, 1: 3},
            },
            id="code-and-data-apart",
        ),
        pytest.param(
            "  SMBA:0=2048\n    L2:0=ff\n    MB:0=100\nL2CODE:0=1\n", {MB: {0: 100}}, id="other-resources-are-left"
        ),
        pytest.param("L3:0=ff;1=ff;\n", {L3: {0: 0xFF, 1: 0xFF}}, id="semicolon-at-the-end"),
        pytest.param("MB:0=4294967295\n", {MB: {0: 4294967295}}, id="mount-in-megabytes"),
        pytest.param("", {}, id="nothing"),
    ]
)
def test_the_kernels_text_is_read_as_numbers(text, schemata):
    assert parse_schemata(text) == schemata


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("L3:uninitialized\n", id="group-that-waits-for-a-pseudo-locked-region"),
        pytest.param("L3:0=xyz\n", id="no-mask"),
        pytest.param("MB:\n", id="no-domain"),
        pytest.param("MB\n", id="no-colon"),
        pytest.param("L3:0=f=f\n", id="two-numbers"),
    ],
)
def test_text_of_another_form_is_refused(text):
    with pytest.raises(SchemataError, match="has no number for a domain"):
        parse_schemata(text)


@pytest.mark.parametrize(
    ("resource", "domains", "line"),
    [
        pytest.param(L3, {0: 0x3FF}, "L3:0=3ff\n", id="release-notes-cache"),
        pytest.param(MB, {0: 2048}, "MB:0=2048\n", id="release-notes-bandwidth"),
        pytest.param(L3, {16: 0xF, 0: 0xF}, "L3:0=f;16=f\n", id="ascending-ids"),
    ],
)
def test_a_line_is_printed_as_the_kernel_takes_it(resource, domains, line):
    assert print_line(resource, domains) == line


def test_only_domains_with_another_number_are_written():
    now = parse_schemata("    MB:0=2048;1=  48\n    L3:0=007;1=007\n")
    assert print_line(MB, changed_domains(now[MB], 48)) == "MB:0=48\n"
    assert changed_domains(now[L3], 7) == {}


@given(
    resource=st.sampled_from(SchemataResource),
    domains=st.dictionaries(st.integers(0, 300), st.integers(0, 2**32 - 1), min_size=1),
    width=st.integers(0, 12),
)
def test_what_is_printed_reads_back_however_the_kernel_pads_it(resource, domains, width):
    form = f"0{width}x" if resource in CACHES else f"{width}d"
    padded = f"{resource:>10}:" + ";".join(f"{domain}={number:{form}}" for domain, number in domains.items()) + "\n"
    assert parse_schemata(padded) == parse_schemata(print_line(resource, domains)) == {resource: domains}
