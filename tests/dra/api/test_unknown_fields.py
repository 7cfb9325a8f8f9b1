from collections.abc import Mapping
from typing import Annotated

import pytest
from pydantic import BeforeValidator, ConfigDict, Field

from dra.api.configuration import ConfigurationSection
from dra.api.unknown_fields import unknown_field_text
from tests.violations import for_each_case


class Limits(ConfigurationSection):
    max_evictions: int = 0
    pause: str = ""


class Document(ConfigurationSection):
    model_config = ConfigDict(title="document")

    node_selector: Annotated[Limits, BeforeValidator(dict)] | None = None
    profiles: tuple[Annotated[Limits, Field(description="one")], ...] = ()
    by_name: Mapping[str, Limits] = {}
    free: Mapping[str, object] = {}


@for_each_case(
    [
        pytest.param(("nodeselector",), "did you mean nodeSelector?", id="letters-of-another-case"),
        pytest.param(("node_selector",), "did you mean nodeSelector?", id="the-name-in-python"),
        pytest.param(("profile",), "did you mean profiles?", id="singular"),
        pytest.param(("nodeSelector", "maxEviction"), "did you mean maxEvictions?", id="below-an-optional-section"),
        pytest.param(("profiles", 3, "pauses"), "did you mean pause?", id="in-a-list"),
        pytest.param(("byName", "a", "maxEvict"), "did you mean maxEvictions?", id="in-a-map"),
        pytest.param(("zone",), "known are byName, free, nodeSelector, profiles", id="far-from-all"),
        pytest.param(("x" * 100_000,), "known are byName, free, nodeSelector, profiles", id="a-long-name"),
        pytest.param(("profiles", 0, 7), "known are maxEvictions, pause", id="a-number"),
    ]
)
def test_the_field_that_is_meant_is_named(where, text):
    assert unknown_field_text(Document, where) == f"unknown field; {text}"


@pytest.mark.parametrize("where", [("free", "a", "b"), ("nowhere", "a")], ids=["free-form", "below-an-unknown-field"])
def test_where_any_field_might_be_valid_none_is_named(where):
    assert unknown_field_text(Document, where) == "unknown field"
