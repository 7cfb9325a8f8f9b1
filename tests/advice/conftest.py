"""Says at the end how much advice was followed."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from tests.advice.test_worlds import SEED, TOTAL  # noqa: PLC0415 - after collection

    if TOTAL["worlds"]:
        terminalreporter.write_line(
            f"advice: {TOTAL['worlds']} worlds from ADVICE_SEED={SEED}, {TOTAL['commands']} commands printed, "
            f"{TOTAL['run']} run, {TOTAL['changed']} of them changed something"
        )
