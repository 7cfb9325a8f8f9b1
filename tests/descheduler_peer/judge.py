"""Asks both sides who is evicted, and brings their answers into one form.

An answer counts the evicted pods by node and owner: pods of one owner on one node are interchangeable. A policy has a
profile with one plugin, and each is asked on the cluster as it was. Our side runs whole rounds with the evictor's
filter, and asks for a place where ``nodeFit`` is true. Upstream holds no places: it asks for each candidate as if no
other went. So that the plugins are compared and not this, our round is asked without holding, too.
"""

import copy
import dataclasses
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from dra.api.descheduler.forms import read_configuration
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.plugin import Plugin
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.profiles import Descheduling, compile_descheduling
from dra.engine.descheduling.round import Profile, RoundResult, run_round
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.instants import WallTime
from dra.model.scheduling import SchedulerNode
from tests.descheduler_peer import clusters, policies

Answer: TypeAlias = tuple[tuple[str, int], ...]
"""``NODE NAMESPACE/KIND/NAME`` → evicted pods; in order."""

_NOW: Final = WallTime(clusters.NOW.timestamp())

REPLACED: Final[dict[str, Plugin]] = {}
"""Plugins of tests instead of those of their name."""


def question(seed: int, *, times: int = 1) -> clusters.Json:
    """Return what is asked for a seed: its cluster and a policy for each plugin."""
    asked = [policies.policy(seed, plugin) for plugin in policies.PLUGINS]
    return {"now": clusters.moment(0), "objects": clusters.cluster(seed), "policies": asked, "times": times}


def upstream(program: Path, questions: Sequence[clusters.Json]) -> Iterator[dict[str, list[Answer]]]:
    """Yield the community's answers to each question: plugin → its distinct answers. Raises CalledProcessError."""
    asked = "".join(f"{json.dumps(question)}\n" for question in questions)
    done = subprocess.run([program], input=asked, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    for given, line in zip(questions, done.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        group_of = groups(given["objects"])
        yield {
            policy["profiles"][0]["name"]: sorted({counted(group_of[pod] for pod, _ in evicted) for evicted in rounds})
            for policy, rounds in zip(given["policies"], answer["evicted"], strict=True)
        }


def ours(
    objects: Iterable[clusters.Json], asked: Iterable[clusters.Json], *, holds_places: bool = False
) -> Iterator[tuple[Answer, RoundResult]]:
    """Yield our answer to each policy, with the round that it comes from."""
    given = list(objects)
    cluster = _cluster_objects(given)
    group_of = groups(given)
    for policy in asked:
        the_snapshot = Snapshot(cluster, now=_NOW)
        if not holds_places:
            _hold_nothing(the_snapshot, policy)
        result = run_round(the_snapshot, [profile(policy)], limits=_compiled(policy).limits)
        if result.faults:
            raise RuntimeError(result.faults[0].message)
        gone = (decision.pod.metadata.key for decision in result.decisions if decision.verdict.accepted)
        yield counted(group_of["/".join(key)] for key in gone), result


def _hold_nothing(the_snapshot: Snapshot, policy: clusters.Json) -> None:
    """Let candidates take no place; for topology spread they do count where they go, as upstream counts them there."""
    fit = the_snapshot._fit
    [given] = policy["profiles"]
    setattr(fit, "hold" if given["name"] == "RemovePodsViolatingTopologySpreadConstraint" else "move", _ignore)


def _ignore(pod: DeschedulingPod, node: str) -> None:
    """Do nothing with a pod and its new node."""


def snapshot(objects: Iterable[clusters.Json]) -> Snapshot:
    """Return a cluster as it is before a round."""
    return Snapshot(_cluster_objects(objects), now=_NOW)


def _cluster_objects(objects: Iterable[clusters.Json]) -> ClusterObjects:
    """Return the objects of a cluster as a round takes them."""
    by_kind: dict[str, list[Any]] = {"Node": [], "Pod": [], "Namespace": []}
    for content in objects:
        by_kind[content["kind"]].append(content)
    return ClusterObjects(
        nodes=tuple(msgspec.convert(by_kind["Node"], list[SchedulerNode])),
        pods=tuple(msgspec.convert(by_kind["Pod"], list[DeschedulingPod])),
        namespaces={meta["name"]: meta["labels"] for meta in (content["metadata"] for content in by_kind["Namespace"])},
    )


def profile(policy: clusters.Json) -> Profile:
    """Return the profile of a policy, read as the descheduler reads it, but for what upstream does not have.

    Pods are evicted and protected by DefaultEvictor, a place is needed only with its nodeFit, and LowNodeUtilization
    may fill its receivers beyond their target.
    """
    descheduling = _compiled(policy)
    [compiled] = descheduling.profiles
    [(_, evictor)] = compiled.filters
    points = {
        point: tuple((REPLACED.get(plugin.name, plugin), args) for plugin, args in getattr(compiled, point))
        for point in ("deschedule", "balance")
    }
    return dataclasses.replace(compiled, requires_place=evictor.node_fit, **points)


def _compiled(policy: clusters.Json) -> Descheduling:
    content = copy.deepcopy(policy)
    [given] = content["profiles"]
    given["plugins"] |= {point: {"enabled": ["DefaultEvictor"], "disabled": ["*"]} for point in ("evict", "filter")}
    for config in given["pluginConfig"]:
        if config["name"] == "LowNodeUtilization":
            config["args"]["receiversWithinTarget"] = False
    compiled = compile_descheduling(read_configuration(content))
    assert compiled is not None
    return compiled


def groups(objects: Iterable[clusters.Json]) -> Mapping[str, str]:
    """Return for each pod what it has in common with the pods that are interchangeable with it."""
    group_of = {}
    for content in objects:
        if content["kind"] == "Pod":
            meta = content["metadata"]
            owner = next(iter(meta["ownerReferences"]), {"kind": "", "name": meta["name"]})
            place = f"{meta['namespace']}/{owner['kind']}/{owner['name']}"
            group_of[f"{meta['namespace']}/{meta['name']}"] = f"{content['spec']['nodeName']} {place}"
    return group_of


def counted(names: Iterable[str]) -> Answer:
    """Return an answer of the groups of the evicted pods."""
    return tuple(sorted(Counter(names).items()))
