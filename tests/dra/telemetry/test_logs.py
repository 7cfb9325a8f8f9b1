import contextvars
import json
import logging

import pytest

from dra.api.configuration import LogFormat, Logging, LogLevel
from dra.telemetry import logs
from dra.telemetry.logs import reconcile_id


@pytest.fixture
def lines(capsys):
    """What goes to standard error, as it is configured; the root logger is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def written():
        return capsys.readouterr().err.splitlines()

    def configured(**settings):
        logs.configure(Logging(**settings))
        return written

    yield configured
    root.handlers[:] = handlers
    root.setLevel(level)


def in_flow(name, write):
    def within():
        reconcile_id.set(name)
        write()

    contextvars.copy_context().run(within)


def test_each_line_is_one_json_object(lines):
    written = lines()
    logging.getLogger("controller.claims").warning("claim %s: “é”\nsecond line", "ml/train", extra={"reason": "Stuck"})
    (line,) = written()
    shown = json.loads(line)
    assert shown.pop("time").endswith("+00:00")
    assert shown == {
        "level": "warning",
        "logger": "controller.claims",
        "message": "claim ml/train: “é”\nsecond line",
        "reason": "Stuck",
    }


def test_a_line_tells_the_decision_it_belongs_to(lines):
    written = lines()
    in_flow("ml/train#7", lambda: logging.warning("one"))  # noqa: LOG015 - any logger
    logging.warning("two")  # noqa: LOG015 - any logger
    one, two = map(json.loads, written())
    assert one["flow"] == "ml/train#7"
    assert "flow" not in two


def test_an_error_comes_with_its_traceback_in_the_same_line(lines):
    written = lines()
    try:
        int("broken")
    except ValueError:
        logging.exception("failed")  # noqa: LOG015 - any logger
    (line,) = written()
    assert json.loads(line)["error"].splitlines()[-1].startswith("ValueError: ")


@pytest.mark.parametrize(
    ("level", "shown"),
    [(LogLevel.DEBUG, ["d", "i", "w"]), (LogLevel.INFO, ["i", "w"]), (LogLevel.WARNING, ["w"])],
)
def test_what_is_below_the_level_is_left_out(lines, level, shown):
    written, logger = lines(level=level), logging.getLogger("x")
    logger.debug("d")
    logger.info("i")
    logger.warning("w")
    assert [json.loads(line)["message"] for line in written()] == shown


def test_text_is_for_people(lines):
    written = lines(format=LogFormat.TEXT)
    in_flow("ml/train#7", lambda: logging.warning("not done"))  # noqa: LOG015 - any logger
    (line,) = written()
    assert line.split(" ", 1)[1] == "warning ml/train#7 not done"
