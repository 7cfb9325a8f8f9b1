"""Diagrams are SVG that browsers read, and say what the tables say."""

from xml.etree import ElementTree as ET

import pytest

from dra.cli.reference import rules, svg_diagrams
from dra.engine.claims.rules import RULES
from dra.engine.reservations.phases import TRANSITIONS

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn):
    return [each.text for each in ET.fromstring(drawn).iter(f"{SVG}text")]  # noqa: S314 our own


def test_each_rule_is_in_the_chain_in_its_order():
    names = [rule.__name__.removesuffix("_rule") for rule in RULES]
    assert [text for text in texts(rules.draw_rule_chain()) if text in names] == names


def test_each_happening_of_the_table_is_in_the_drawing_of_phases():
    told = " ".join(filter(None, texts(rules.draw_reservation_phases())))
    moving = {happening for (before, happening), outcome in TRANSITIONS.items() if before is not outcome.phase}
    assert moving
    assert [happening for happening in moving if happening.value not in told] == []


@pytest.mark.parametrize("draw", [rules.draw_rule_chain, rules.draw_pod_stages, rules.draw_reservation_phases])
def test_everything_is_within_the_drawing(draw):
    root = ET.fromstring(draw())  # noqa: S314 our own
    width, height = float(root.get("width")), float(root.get("height"))
    places = [(float(each.get("x")), float(each.get("y"))) for each in root.iter(f"{SVG}text")]
    assert places
    assert all(0 < x < width and 0 < y < height for x, y in places)


def test_what_is_special_in_xml_is_written_as_text():
    assert "a < b & c" in texts(svg_diagrams.draw_chain({"name": "a < b & c"}))
