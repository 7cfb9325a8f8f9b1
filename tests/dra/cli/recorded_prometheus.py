"""A Prometheus on loopback that answers from a table, and remembers what it was asked."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from dra.engine.device_usage.history import HELD_METRIC, LABELS, USED_METRIC, Query, queries

NOW = 1_795_000_000.0
DAY = 24 * 3600.0


def series(value, *group):
    return {"metric": dict(zip(LABELS, group, strict=True)), "value": [NOW, str(value)]}


def vector(*result):
    return {"status": "success", "data": {"resultType": "vector", "result": list(result)}}


class RecordedPrometheus:
    """Answers each of our queries with the series of the table, whatever they select."""

    def __init__(self, answers, *, lines=(), status=200, body=None, headers=()):
        self.answers = answers
        self.lines = dict(lines)
        self.status, self.body, self.headers = status, body, dict(headers)
        self.asked = []
        self.sent_headers = []

    def answer(self, path):
        """Return the answer to a request."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        self.asked.append((urlsplit(path).path, asked))
        if self.body is not None:
            return self.body
        expression = asked["query"]
        if expression == "time()":
            return json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [NOW, str(NOW)]}})
        if "start" in asked:
            metric = HELD_METRIC if HELD_METRIC in expression else USED_METRIC
            data = {"resultType": "matrix", "result": list(self.lines.get(metric, ()))}
            return json.dumps({"status": "success", "data": data})
        return json.dumps(vector(*self.answers.get(_query_of(expression), ())))


def _query_of(expression):
    """Return which of our queries an expression is, whatever it selects, and however long it looks back."""
    return next(query for query, text in queries(since=DAY).items() if _shape(text) == _shape(expression))


def _shape(expression):
    parts, quoted, depth, escaped = [], False, 0, False
    for character in expression:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
        elif not depth and not character.isdigit():
            parts.append(character)
    return "".join(parts)


@contextlib.contextmanager
def serving(server, *, context=None):
    """Serve on a free port of loopback, with TLS if there is a context; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.sent_headers.append(dict(self.headers))
            body = server.answer(self.path).encode()
            self.send_response(server.status)
            for name, value in {"Content-Length": str(len(body)), **server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'' if context is None else 's'}://127.0.0.1:{listener.server_port}"
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


TEAMS = {
    Query.HELD: [series(8, "idlers", "jobs.batch/sleep", "gpus"), series(4, "workers", "jobs.batch/train", "gpus")],
    Query.USED: [series(2, "idlers", "jobs.batch/sleep", "gpus"), series(4, "workers", "jobs.batch/train", "gpus")],
    Query.HELD_HOURS: [
        series(192, "idlers", "jobs.batch/sleep", "gpus"),
        series(96, "workers", "jobs.batch/train", "gpus"),
        series(12, "workers", "<none>", "gpus"),
    ],
    Query.USED_HOURS: [
        series(48, "idlers", "jobs.batch/sleep", "gpus"),
        series(96, "workers", "jobs.batch/train", "gpus"),
    ],
    Query.FULLY_USED_AT: [series(NOW - 5 * 3600, "idlers", "jobs.batch/sleep", "gpus")],
}
"""A day of two teams: one holds eight devices and uses two of them since five hours ago."""
