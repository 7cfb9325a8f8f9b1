"""Tables and metadata: which shape is chosen, and what stands in a cell."""

from datetime import UTC, datetime

import pytest

from localplane.kinds.kind import PrinterColumn
from localplane.representations import printer_cell
from tests.localplane.api_client import MAPS, ApiClient
from tests.violations import for_each_case

VIRTUAL_TIME = True

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
async def api():
    api = ApiClient()
    await api.map("a", data={"x": "z"}, labels={"l": "m"})
    return api


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "ConfigMapList"),
        ("*/*", "ConfigMapList"),
        (f"{TABLE},application/json", "Table"),
        (f"{METADATA_LIST},application/json", "PartialObjectMetadataList"),
        (f"{METADATA},application/json", "ConfigMapList"),
        ("application/vnd.kubernetes.protobuf, application/json", "ConfigMapList"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "ConfigMapList"),
        ("application/json;v=v1;g=meta.k8s.io;as=Table", "Table"),
    ],
)
async def test_the_first_shape_that_there_is_is_taken(api, accept, kind):
    assert (await api.ok("GET", MAPS, accept=accept))["kind"] == kind


async def test_a_single_object_is_a_table_of_one_row(api):
    table = await api.ok("GET", f"{MAPS}/a", accept=TABLE)

    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"] for row in table["rows"]] == [["a", 1, "0s"]]


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")]
)
async def test_a_row_has_as_much_of_its_object_as_is_asked_for(api, include, kind):
    table = await api.ok("GET", f"{MAPS}/a", accept=TABLE, includeObject=include)
    assert table["rows"][0]["object"]["kind"] == kind


async def test_a_row_may_have_no_object_and_nothing_else_is_known(api):
    table = await api.ok("GET", f"{MAPS}/a", accept=TABLE, includeObject="None")
    assert "object" not in table["rows"][0]
    assert await api.refused("GET", MAPS, accept=TABLE, includeObject="All") == (
        400,
        'unrecognized includeObject value: "All"',
    )


async def test_metadata_is_shown_as_it_lies_in_the_object(api):
    whole = await api.ok("GET", f"{MAPS}/a")
    partial = await api.ok("GET", f"{MAPS}/a", accept=METADATA)

    assert partial == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": whole["metadata"],
    }


@for_each_case(
    [
        ("string", "a", "a"),
        ("string", 5, "5"),
        ("string", True, "true"),
        ("string", {"a": 1}, '{"a":1}'),
        ("integer", 5, 5),
        ("integer", 5.9, 5),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 1.5, 1.5),
        ("boolean", False, False),
        ("boolean", "true", None),
        ("date", "2026-11-20T11:58:21Z", "99s"),
        ("date", "yesterday", "<invalid>"),
        ("date", 5, None),
        ("string", None, None),
    ],
)
def test_a_cell_is_what_the_type_of_its_column_allows(kind, value, shown):
    assert printer_cell(PrinterColumn(name="X", type=kind, path=".x"), {"x": value}, NOON) == shown
