"""Log lines: JSON for collectors, text for people; each line names its flow, the reconciliation it belongs to."""

import contextvars
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from dra.api.process_settings import LogFormat, LogSettings
from dra.model.terminal_escapes import escape_line, escape_terminal

reconcile_id: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("flow", default="")
"""The reconciliation that the current log line belongs to."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


class JsonFormatter(logging.Formatter):
    """A formatter that writes one JSON object a line.

    Its keys are time, level, logger, message, and flow, reason and error where present.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON line."""
        line: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": escape_terminal(record.getMessage(), on_a_terminal=True),
        }
        if reconcile_id.get():
            line["flow"] = reconcile_id.get()
        if hasattr(record, "reason"):
            line["reason"] = str(record.reason)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A formatter that writes text lines: ``12:00:00.123 warning ml/train#7 message``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a text line."""
        at = datetime.fromtimestamp(record.created, tz=UTC).strftime("%H:%M:%S.%f")[:-3]
        line = " ".join(
            filter(None, (at, record.levelname.lower(), reconcile_id.get(), escape_line(record.getMessage())))
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(settings: LogSettings) -> None:
    """Send all log lines to standard error; standard output is for data."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[settings.level])
