"""Structs of the engine are immutable: plans, views and reasons are shared between decisions, and are keys of maps."""

import importlib
import pkgutil

import msgspec

import dra.engine
from tests.violations import for_each

MODULES = sorted(found.name for found in pkgutil.walk_packages(dra.engine.__path__, f"{dra.engine.__name__}."))


@for_each(MODULES)
def test_structs_are_frozen(module):
    found = vars(importlib.import_module(module)).values()
    structs = [each for each in found if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    assert [each.__qualname__ for each in structs if not each.__struct_config__.frozen] == []
