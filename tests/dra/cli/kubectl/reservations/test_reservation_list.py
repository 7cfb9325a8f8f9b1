"""What a watch of Reservations prints again."""

from datetime import UTC, datetime, timedelta

import msgspec

from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.reservations.reservation_list import _build_table
from dra.cli.kubectl.resource_table import SELECT_ALL
from dra.cli.kubectl.snapshots.watch_printer import WatchPrinter
from dra.model.meta import ObjectMeta, UnstructuredObject

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def reservation(name, version, phase):
    metadata = {"name": name, "uid": name, "resourceVersion": version, "creationTimestamp": "2026-11-20T12:00:00Z"}
    spec = {"template": {"spec": {}}, "owners": [{"object": {"name": "x"}}], "ttl": "24h"}
    content = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    return UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content)


def test_time_that_passes_is_no_change_and_what_is_gone_says_so(capsys):
    printer, known = WatchPrinter(PrintOptions()), {}
    seen = (
        [reservation("a", "1", "Pending"), reservation("b", "1", "Pending")],
        [reservation("a", "2", "Available"), reservation("b", "1", "Pending")],
        [reservation("b", "1", "Pending")],
    )
    for hours, objects in enumerate(seen):
        now = NOON + timedelta(hours=hours)
        printer.print_changes(_build_table(objects, name=None, selectors=SELECT_ALL, now=now, cached_rows=known))
    lines = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [["NAME", "PHASE"], ["a", "Pending"], ["b", "Pending"], ["a", "Available"], ["a", "Gone"]]
