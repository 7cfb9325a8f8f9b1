"""Generates the cases: the same ones each time, since Koordinator's answers are recorded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tests.scenarios.koordinator.batch_resources.cases import NUMBERS, POOL, SITE, Case, Kind, Pod, Usage

Json = dict[str, Any]

RESERVATION: Final = "node.koordinator.sh/reservation"
STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
CPU_RATIO: Final = "node.koordinator.sh/cpu-reclaim-ratio"
MEMORY_RATIO: Final = "node.koordinator.sh/memory-reclaim-ratio"

_CLASSES: Final = (
    *(("LS", "koord-prod"), ("LS", "koord-prod"), ("LSR", "koord-prod"), ("LSE", "koord-prod"), ("LS", "koord-mid")),
    *(("BE", "koord-batch"), ("BE", "koord-batch"), ("BE", "koord-free"), ("", "")),
)
"""QoS and priority class of a pod, some more often than others."""

_AGES: Final = (0, 0, 30, 600, 1800, 2700, 3900, 4000, 86_400, -120, -7200)
"""Seconds; the limit is 3600, and a run takes some minutes."""

_LIES: Final = (
    Usage("-4", "1Gi"),
    Usage("1", "-8Gi"),
    Usage("-100", "-100Gi"),
    Usage("1e12", "1Gi"),
    Usage("1", "1e18"),
    Usage("9223372036854775807", "9223372036854775807"),
)


def all_cases() -> list[Case]:
    """Return all cases."""
    kinds = [(kind, nth) for kind, many in NUMBERS.items() for nth in range(many)]
    return [_Draft(number, kind, nth).case() for number, (kind, nth) in enumerate(kinds)]


class _Draft:
    """A case in the making."""

    def __init__(self, number: int, kind: Kind, nth: int) -> None:
        self._chance: Final = random.Random(f"batch {kind} {nth}")  # noqa: S311 - cases that can be made again
        self._kind: Final = kind
        self._nth: Final = nth
        self._cpus: Final = self._chance.choice((2, 4, 8, 16, 32, 64, 96, 104))
        self._bytes: Final = self._cpus * self._chance.choice((2, 4, 8)) * 2**30 - self._chance.randrange(10**9)
        self._made: Json = {"number": number, "kind": kind}

    def case(self) -> Case:
        """Return the case."""
        chance = self._chance
        kept = chance.choice((0, 0, 0, 100, 350, 1000))
        self._made |= {
            "capacity": Usage(str(self._cpus), f"{self._bytes // 1024}Ki"),
            "allocatable": Usage(f"{self._cpus * 1000 - kept}m", f"{self._bytes // 1024 - 307_200 - kept * 1024}Ki"),
            "system": self._usage(0.12),
            "pods": tuple(self._pod() for _ in range(chance.randrange(1, 7))),
        }
        makers: Mapping[Kind, Callable[[], None]] = {
            Kind.UNREPORTED: self._unreported,
            Kind.REQUESTS: self._requests,
            Kind.RESERVED: self._reserved,
            Kind.STRATEGY: self._strategy,
            Kind.POLICIES: self._policies,
            Kind.AGE: self._age,
            Kind.AMOUNTS: self._amounts,
            Kind.HOST: self._host,
            Kind.PARTIAL: self._partial,
            Kind.UNCLASSED: self._unclassed,
            Kind.SIDECARS: self._sidecars,
            Kind.GREATER: self._greater,
            Kind.LYING: self._lying,
            Kind.INCOMPLETE: self._incomplete,
            Kind.HELD: self._held,
            Kind.RATIO: self._ratio,
        }
        if self._kind in makers:
            makers[self._kind]()
        return Case(**self._made)

    # Parts

    def _usage(self, share: float) -> Usage:
        """Return at most this share of the node."""
        chance = self._chance
        cpu = chance.randrange(1, max(int(self._cpus * 1000 * share), 2))
        memory = chance.randrange(1, max(int(self._bytes * share), 2))
        return Usage(f"{cpu}m", chance.choice((f"{memory}", f"{memory // 1024}Ki", f"{memory // 2**20 + 1}Mi")))

    def _resources(self, *, batch: bool, share: float = 0.04) -> Json:
        amount = self._usage(share)
        if not batch:
            return {"requests": {"cpu": amount.cpu, "memory": amount.memory}}
        named = {"kubernetes.io/batch-cpu": amount.cpu.removesuffix("m"), "kubernetes.io/batch-memory": amount.memory}
        return {"requests": named, "limits": named}

    def _pod(self, **changes: Any) -> Pod:
        """Return a measured pod of any class."""
        qos, name = self._chance.choice(_CLASSES)
        batch = name == "koord-batch"
        pod = Pod(
            qos=qos,
            priority_class=name,
            containers=tuple(self._resources(batch=batch) for _ in range(self._chance.choice((1, 1, 2)))),
            usage=self._usage(0.08),
            phase=self._chance.choice(("Running", "Running", "Running", "Pending")),
        )
        return msgspec.structs.replace(pod, **changes)

    def _add(self, *pods: Pod) -> None:
        self._made["pods"] += pods

    # Kinds

    def _unreported(self) -> None:
        self._add(self._pod(usage=None), self._pod(usage=None, phase="Pending"))
        self._add(self._pod(exists=False))
        for phase in ("Succeeded", "Failed"):
            if self._chance.random() < 0.5:
                self._add(self._pod(phase=phase, usage=self._chance.choice((None, self._usage(0.05)))))
        self._add(self._pod(deleted=True, phase="Running"), self._pod(deleted=True, phase="Running", usage=None))

    def _requests(self) -> None:
        chance = self._chance
        plain = {"qos": "LS", "priority_class": "koord-prod", "usage": None}
        large = self._resources(batch=False, share=0.15)
        self._add(
            chance.choice(
                (
                    self._pod(init=(large,), **plain),
                    self._pod(init=(large, large), **plain),
                    self._pod(overhead=True, **plain),
                    self._pod(containers=({"limits": {"cpu": "700m", "memory": "1Gi"}},), **plain),
                    self._pod(containers=({},), **plain),
                )
            )
        )
        self._add(
            chance.choice(
                (
                    self._pod(qos="", priority_class="koord-batch", usage=None),
                    self._pod(qos="BE", priority_class="", usage=None),
                    self._pod(qos="BE", priority_class="", class_label="koord-prod", usage=None),
                    self._pod(qos="LS", priority_class="", class_label="koord-free", usage=None),
                    self._pod(qos="LSE", priority_class="koord-mid"),
                    self._pod(qos="LSE", priority_class="", usage=None),
                    self._pod(qos="SYSTEM", priority_class="", usage=None),
                    self._pod(qos="be", priority_class="", usage=None),
                    self._pod(qos="", priority_class="", containers=({},)),
                )
            )
        )

    def _reserved(self) -> None:
        chance = self._chance
        amount = self._usage(0.35)
        resources = {"cpu": amount.cpu, "memory": amount.memory}
        ids = {"reservedCPUs": chance.choice(("0", "0-1", "1,0"))}
        text = chance.choice(
            (
                json.dumps({"resources": resources}),
                json.dumps({"resources": {"cpu": amount.cpu}}),
                json.dumps({"resources": {"memory": amount.memory}}),
                json.dumps(ids),
                json.dumps({"resources": resources} | ids),
                json.dumps({"resources": resources} | ids | {"applyPolicy": "ReservedCPUsOnly"}),
                json.dumps({"resources": resources, "applyPolicy": "Default"}),
            )
        )
        self._made["annotations"] = {RESERVATION: text}

    def _strategy(self) -> None:
        chance = self._chance
        labels = {POOL: chance.choice(("generous", "cautious", "off", "over", "unknown"))}
        if chance.random() < 0.4:
            labels[SITE] = chance.choice(("a", "b", "c"))
        if chance.random() < 0.3:
            labels[CPU_RATIO] = chance.choice(("0.8", "0.5", "1", "0", "1.5"))
        if chance.random() < 0.3:
            labels[MEMORY_RATIO] = chance.choice(("0.75", "0.5", "1.0"))
        self._made["labels"] = labels
        if chance.random() < 0.5:
            strategy = chance.choice(
                (
                    {"cpuReclaimThresholdPercent": 75},
                    {"memoryReclaimThresholdPercent": 20, "cpuReclaimThresholdPercent": 100},
                    {"enable": False},
                    {"enable": True},
                    {"memoryCalculatePolicy": "request"},
                    {},
                )
            )
            self._made["annotations"] = {STRATEGY: json.dumps(strategy)}

    def _policies(self) -> None:
        self._made["labels"] = {POOL: ("request", "greater")[self._nth % 2]}
        self._add(self._pod(usage=self._usage(0.01)), self._pod(exists=False))
        if self._nth % 2 == 0:
            self._add(self._pod(usage=None))

    def _age(self) -> None:
        self._made["age"] = _AGES[self._nth % len(_AGES)]
        self._made["measured"] = self._nth < 18

    def _amounts(self) -> None:
        chance = self._chance
        odd = (
            *(Usage("1234567n", "1.5Gi"), Usage("0.25", "1e9"), Usage("1500u", "123456789123m"), Usage("1", "0.5")),
            *(Usage("2e0", "3G"), Usage("0", "0"), Usage("1.0001", "1048577"), Usage("333m", "0.1Ti")),
        )
        self._add(self._pod(usage=chance.choice(odd)), self._pod(usage=chance.choice(odd)))
        if chance.random() < 0.5:
            self._made["system"] = chance.choice(odd)

    def _host(self) -> None:
        chance = self._chance
        classes = (("koord-prod", "LS"), ("koord-batch", "BE"), ("koord-mid", "LS"), ("koord-free", ""))
        self._made["host"] = tuple((*chance.choice(classes), self._usage(0.1)) for _ in range(2))

    def _partial(self) -> None:
        usage = Usage(self._usage(0.05).cpu, "")
        self._add(self._pod(qos="LS", priority_class="koord-prod", usage=usage))

    def _unclassed(self) -> None:
        self._made["host"] = (("", ("LS", "")[self._nth % 2], self._usage(0.1)),)

    def _sidecars(self) -> None:
        large = self._resources(batch=False, share=0.15)
        sidecar = self._resources(batch=False) | {"restartPolicy": "Always"}
        init = ((sidecar,), (large, sidecar), (sidecar, large))[self._nth % 3]
        self._add(self._pod(qos="LS", priority_class="koord-prod", init=init, usage=None))

    def _greater(self) -> None:
        self._made["labels"] = {POOL: "greater"}
        self._add(self._pod(qos="LS", priority_class="koord-prod", usage=None))

    def _lying(self) -> None:
        lie = _LIES[self._nth % len(_LIES)]
        if self._nth < len(_LIES):
            self._made["system"] = lie
        else:
            self._add(self._pod(qos="LS", priority_class="koord-prod", usage=lie))

    def _incomplete(self) -> None:
        self._made["system"] = None

    def _held(self) -> None:
        amount = {
            "kubernetes.io/batch-cpu": str(self._cpus * 700),
            "kubernetes.io/batch-memory": str(self._bytes * 7 // 10),
        }
        container = {"requests": amount, "limits": amount}
        self._add(self._pod(qos="BE", priority_class="koord-batch", containers=(container,)))

    def _ratio(self) -> None:
        texts = ("0.29", "0.57", "0.58", "1.15", "0.07", "NaN", "1.1", "Inf", "0x1p-1", "5e-1", "0.999", "1_0")
        self._made["labels"] = {(CPU_RATIO, MEMORY_RATIO)[self._nth % 2]: texts[self._nth % len(texts)]}
