"""The bench of translated pods compares runs of one round, and prints what it has measured, whatever comes after."""

import signal
import sys

import pytest

from bench import translation
from bench.admission import Latencies, Place
from bench.translated_pods import Asking
from bench.translation_rates import Outcome, Rates, Way


def outcome(way: Way, *, rate: float, **milliseconds: float) -> Outcome:
    return Outcome(way, 100, 100 / rate, {"scheduler": 5.0, "controller manager": 2.0}, milliseconds)


def test_ratios_are_medians_over_the_rounds():
    rates = Rates("limits")
    for plain, named, translated in ((40, 10, 8), (100, 20, 20), (60, 20, 10)):
        rates.rounds.append(
            [
                outcome(Way.PLAIN, rate=plain),
                outcome(Way.NAMED, rate=named),
                outcome(Way.ALONGSIDE, rate=translated),
            ]
        )
    (row,) = (line for line in rates.table().splitlines() if Way.ALONGSIDE in line)
    assert "| 10.0 | 0.20 (0.20, 0.20, 0.17) | 0.80 (0.80, 1.00, 0.50) |" in row


def test_a_round_that_was_cut_short_has_no_ratios_of_what_it_lacks():
    rates = Rates("limits", [[outcome(Way.ALONGSIDE, rate=10, **{"dra-reserve": 3.0})]])
    assert "| translated, alongside | 10.0 |  |  | 5.0 | 2.0 | 3.0 |" in rates.table()


def test_latencies_are_compared_with_those_in_a_namespace_without_the_label():
    latencies = Latencies()
    latencies.real[Asking.CPUS, Place.WITHOUT_LABEL] += [1.0, 2.0, 9.0]
    latencies.real[Asking.CPUS, Place.WITH_LABEL] += [3.5, 3.0, 4.0]
    latencies.spent[Asking.CPUS, Place.WITH_LABEL, "MutatingAdmissionPolicy"] += [0.75]
    assert "| 2 CPUs, LSR | create | – | 2.00 | 3.50 | +1.50 | 0.75 | – |" in latencies.table()


@pytest.fixture
def termination():
    """The handler of SIGTERM, restored at the end."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("termination")
def test_results_are_printed_when_the_bench_is_terminated(monkeypatch, capsys):
    async def measure(*_, **__):
        signal.raise_signal(signal.SIGTERM)

    async def on(report, _, act):
        report.default.rounds.append([outcome(Way.NAMED, rate=12.5)])
        await act(None, None)

    monkeypatch.setattr(translation.Report, "_on", on)
    monkeypatch.setattr(translation.admission, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["bench.translation"])
    with pytest.raises(KeyboardInterrupt):
        translation.main()
    assert "| template named by the pod | 12.5 |" in capsys.readouterr().out
