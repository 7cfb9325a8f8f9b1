"""Reports at the end how much advice was followed."""

from typing import Any

from tests.remarks import remark


def pytest_sessionfinish(session: Any) -> None:
    from tests.advice.test_worlds import SEED, TOTAL  # noqa: PLC0415 - after collection

    if TOTAL["worlds"]:
        remark(
            session.config,
            f"advice: {TOTAL['worlds']} worlds from ADVICE_SEED={SEED}, {TOTAL['commands']} commands printed, "
            f"{TOTAL['run']} run, {TOTAL['changed']} of them changed something",
        )
