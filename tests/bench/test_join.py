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


def test_the_table_compares_with_the_limit_and_shows_requests_and_load():
    limit = Outcome(Way.LIMIT, 1000, 40.0, 0, 0, requests=3.0, load=2.5)
    bound = [Outcome(Way.BOUND, 1000, 20.0, 20, 0, requests=2.0, load=load) for load in (3.0, 1.5)]
    row = "| ours, gated, replace, the extender binds | 1,000 | 2 | 50.00 | 2.00 |  | 0.020 | 2.0 | 1.5 to 3 |"
    assert row in join.table([limit, *bound])
