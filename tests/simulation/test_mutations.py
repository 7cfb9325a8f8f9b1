"""Mutations change the program: one that names what was renamed would prove nothing."""

from types import SimpleNamespace

import pytest

from tests.simulation import mutations
from tests.simulation.migrations import mutations as migrations

MUTATIONS = (*mutations.MUTATIONS, *migrations.MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_replaces_what_exists(mutation, monkeypatch):
    mutation(monkeypatch.setattr)


def test_what_does_not_exist_is_not_replaced():
    with pytest.raises(AttributeError):
        mutations.replace_attribute(SimpleNamespace(), "renamed", 1)
