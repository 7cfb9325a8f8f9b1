"""Plays seeds in whatever tree is the working directory, and prints what came of each as a line of JSON.

`tests.simulation.comparison` runs this very file in two trees. So nothing of its own tree is imported here, and of the
tree that it plays only names that older commits have, too.

A seed decides by random numbers, which components draw one after the other: one watch more, and each later uid, pause
and delay is another one. Here each component draws from a sequence of its own, so that only what depends on a change
changes.
"""

import argparse
import hashlib
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

SIMULATIONS: Final = {
    "claims": ("tests.simulation", "SimulatedSystem"),
    "migrations": ("tests.simulation.migrations", "MigratingCluster"),
}
"""Package of each simulation, and the class of its system."""

FAULT: Final = "fault"
"""The first word of a line of the history that tells of a fault."""

FAULT_OPERATIONS: Final = frozenset({"InjectFault", "InjectFaults", "KillProcess"})

_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_EVENTS: Final = ("events", "events.events.k8s.io")
_LEASES: Final = "leases.coordination.k8s.io"
_NO_OUTCOME: Final = frozenset({*_EVENTS, _LEASES, "customresourcedefinitions.apiextensions.k8s.io"})
"""Collections that are no part of a state: what only tells of the run, and what a run begins with."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_ADDRESS: Final = re.compile(r"\b10(?:\.\d{1,3}){3}\b")
_VOLATILE: Final = ("resourceVersion", "uid", "managedFields", "generation", "creationTimestamp")
_REPLICA: Final = re.compile(r"\d+$")


class OwnSequences(Random):
    """Random numbers of one seed, in a sequence of its own for each name that draws."""

    def __init__(self, seed: object, name: Callable[[], str]) -> None:
        super().__init__(0)
        self._seed = seed
        self._name = name
        self._sequences: dict[str, Random] = {}

    def random(self) -> float:
        return self._sequence("random").random()

    def getrandbits(self, k: int, /) -> int:
        return self._sequence("bits").getrandbits(k)

    def choices(self, *arguments: Any, **options: Any) -> list[Any]:
        return self._sequence("choices").choices(*arguments, **options)

    def _sequence(self, kind: str) -> Random:
        name = f"{self._seed} {kind} {self._name()}"
        return self._sequences.setdefault(name, Random(name))


def calling_module() -> str:
    """Return the module that draws a random number, as that names the component."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"] in {__name__, "random"}:
        frame = frame.f_back
    return str(frame.f_globals["__name__"])


class Recording:
    """What is written in one run, and what is there at its rests."""

    def __init__(self, system: Any, *, seed: int) -> None:
        self.writes: Counter[str] = Counter()
        """Successful writes by component, verb, kind and subresource; of Events by reason, too."""
        self.rests: list[dict[str, Any]] = []
        """All objects by key, whenever the system had come to rest, and in the end."""
        self._system = system
        self._names: dict[str, str] = {}
        self._incarnations: Counter[str] = Counter()
        self._delays: Counter[str] = Counter()
        self._faults: list[tuple[int, float, str]] = []
        """Times and lines of faults, after the number of entries of the log before each."""
        self._request = ""
        """Component, verb and kind of the request for which faults are drawn."""
        self._seed = seed
        self._separate_random_numbers()
        self._watch_faults()
        self._watch_requests()
        self._watch_creations()

    def _separate_random_numbers(self) -> None:
        system, seed = self._system, self._seed
        of_actor = OwnSequences(seed, lambda: system.actor)
        system.server._random = system.server.registry._random = of_actor
        system._random = OwnSequences(seed + 2, calling_module)
        system.faults._random = OwnSequences(seed + 1, lambda: self._request)
        system.faults.draw_delay = self._draw_delay
        importlib.import_module("dra.kube.backoff").JITTER.random = lambda: 0.5

    def _draw_delay(self, rule: Any) -> float:
        self._delays[str(rule)] += 1
        return Random(f"{self._seed} {rule} {self._delays[str(rule)]}").uniform(0.0, rule.seconds)

    def _watch_faults(self) -> None:
        draw = self._system.faults.draw

        def draw_and_note(component: str, call: Any, **options: Any) -> Any:
            self._request = f"{component} {call.verb} {call.resource}"
            rules = draw(component, call, **options)
            for rule in rules:
                line = f"{FAULT} {rule.fault} hits {self._request} {call.name}"
                self._faults.append((len(self._system.write_log.entries), self._system.clock.now(), line))
            return rules

        self._system.faults.draw = draw_and_note

    def _watch_requests(self) -> None:
        request_info = importlib.import_module("localplane.fault_injection").request_info
        handle = self._system.server.handle

        async def handle_and_count(request: Any) -> Any:
            actor = _REPLICA.sub("", self._system.actor)
            response = await handle(request)
            call = request_info(request)
            if call is not None and call.verb in _VERBS and response.status < 300 and not _is_heartbeat(actor, call):
                self.writes[f"{actor} {call.verb} {call.resource}{_reason(request, call)}"] += 1
            return response

        self._system.server.handle = handle_and_count

    def _watch_creations(self) -> None:
        log = self._system.write_log
        record = log.record

        def record_and_name(event: Any, **options: Any) -> None:
            record(event, **options)
            if event.previous is None:
                key = event.object.key
                name = self._readable("/".join(filter(None, (key.collection, key.namespace, key.name))))
                self._incarnations[name] += 1
                uid = json.loads(event.object.raw)["metadata"]["uid"]
                self._names.setdefault(uid, f"<uid {self._incarnations[name]} of {name}>")

        log.record = record_and_name

    def rest(self) -> None:
        """Take in what is there."""
        store = self._system.server.store
        objects = {}
        for collection in sorted(store.collections()):
            if collection in _NO_OUTCOME:
                continue
            for stored in store.snapshot(collection):
                name = "/".join(filter(None, (collection, stored.key.namespace, stored.key.name)))
                objects[self._readable(name)] = self._content(stored.raw)
        self.rests.append(objects)

    def _content(self, raw: bytes) -> dict[str, Any]:
        """Return an object without what differs between equal ones: uids have names, times and addresses are gone."""
        content: dict[str, Any] = json.loads(self._readable(bytes(raw).decode()))
        for name in _VOLATILE:
            content["metadata"].pop(name, None)
        return content

    def _readable(self, text: str) -> str:
        named = _UUID.sub(lambda uid: self._names.get(uid.group(), "<uuid>"), text)
        return _ADDRESS.sub("<address>", _TIME.sub("<time>", named))

    def history(self) -> list[tuple[float, str]]:
        """Return times and lines of the log, and between them the faults.

        Of several watches of one kind by one component, nothing tells which a fault hits.
        """
        entries = enumerate(self._system.write_log.entries)
        numbered = [*self._faults, *((number, entry.at, str(entry)[9:].strip()) for number, entry in entries)]
        return [(at, self._readable(line)) for _, at, line in sorted(numbered, key=lambda each: each[0])]


def _reason(request: Any, call: Any) -> str:
    """Return the reason of an Event that is created."""
    return f" {json.loads(request.body)['reason']}" if call.resource in _EVENTS and call.verb == "create" else ""


def _is_heartbeat(actor: str, call: Any) -> bool:
    return call.resource == _LEASES or (actor == "nodes" and call.plural == "nodes")


class Player:
    """Plays seeds of one simulation."""

    def __init__(self, simulation: str, *, without_faults: bool, mutation: str = "") -> None:
        package, system = SIMULATIONS[simulation]
        self._runner = importlib.import_module(f"{package}.runner")
        self._draw = importlib.import_module(f"{package}.scenario").draw_scenario
        self._left_out = FAULT_OPERATIONS if without_faults else frozenset()
        self._recordings: list[Recording] = []
        self._seed = 0
        for module in (self._runner, importlib.import_module("controller"), importlib.import_module("dra.engine")):
            assert Path(str(module.__file__)).is_relative_to(Path.cwd()), f"{module.__file__} is of another tree"
        if mutation:
            importlib.import_module(f"{package}.mutations").BY_NAME[mutation](setattr)
        self._record_systems(system)
        self._record_rests(importlib.import_module(f"{package}.liveness"))

    def play(self, seed: int) -> dict[str, Any]:
        """Return what came of a seed."""
        self._seed = seed
        drawn = self._draw(seed)
        numbers = tuple(n for n, each in enumerate(drawn.operations) if type(each).__name__ not in self._left_out)
        played = drawn.only(numbers)
        result = self._runner.run_scenario(played)
        recording = self._recordings.pop()
        recording.rest()
        return {
            "seed": seed,
            "scenario": hashlib.sha256(str(played).encode()).hexdigest(),
            "violation": result.violation,
            "writes": recording.writes,
            "rests": recording.rests,
            "history": recording.history(),
        }

    def _record_systems(self, name: str) -> None:
        known, player = getattr(self._runner, name), self

        class Recorded(known):  # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                player._recordings.append(Recording(self, seed=player._seed))

        setattr(self._runner, name, Recorded)

    def _record_rests(self, liveness: Any) -> None:
        """Look at each rest of simulations that have several: in the end of claims, all pods and workloads are gone."""
        known = getattr(liveness, "wait_until_settled", None)
        if known is None:
            return

        async def wait_and_record(system: Any) -> None:
            await known(system)
            self._recordings[-1].rest()

        liveness.wait_until_settled = wait_and_record


def _records(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    player = Player(arguments.simulation, without_faults=arguments.without_faults, mutation=arguments.mutation)
    for seed in range(arguments.first, arguments.first + arguments.count):
        yield player.play(seed)


def main() -> None:
    """Play the seeds that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulation", choices=SIMULATIONS)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--without-faults", action="store_true")
    parser.add_argument("--mutation", default="", help="a rule that is broken first")
    for each in _records(parser.parse_args()):
        print(json.dumps(each, sort_keys=True), flush=True)


if __name__ == "__main__":
    main()
