"""The bench of joining pods prints what it has measured, whatever comes after."""

import pytest

from bench import join
from bench.join import Case, Outcome, Record, Way

MEASURED = Outcome(Way.GATED, 200, 8.0, 12, 0)


def test_outcomes_are_printed_when_cleaning_up_fails(monkeypatch, capsys):
    async def measure(*_, record, **__):
        record(MEASURED)
        raise TimeoutError

    monkeypatch.setattr(join, "measure", measure)
    with pytest.raises(TimeoutError):
        Record("title\n").measure([Case(Way.GATED, 200)])
    printed = capsys.readouterr().out
    assert "title" in printed
    assert "| ours, gated, replace | 200 | 1 | 25.00 |" in printed
