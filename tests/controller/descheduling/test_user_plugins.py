"""Users' plugins: what is loaded, and what becomes of plugins that misbehave."""

import importlib.metadata
import sys
import textwrap

import pytest

from controller.descheduling import user_plugins
from controller.descheduling.plugin_thread import PluginThread
from controller.descheduling.user_plugins import load_user_plugins
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import BalancePlugin, DeschedulePlugin, FilterPlugin
from dra.engine.descheduling.round import Limits, Profile
from tests.dra.engine.descheduling.rounds import Naming, evicted, play, pod, profile

ROOM = {"n2": 100}
SECONDS = 0.2
"""Seconds of a plugin that hangs: it uses all of them."""
HANGS = f"takes longer than {SECONDS:g} s"
ENOUGH = 60.0
"""Seconds of all other plugins: how long those take depends on what else the machine does."""

HEAD = """
import re, sys, time
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import Evict, Trigger

class Plugin:
    name = "Mine"
    class Args(PluginArgs):
        max_days: int = 30
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that installs modules with a plugin each, by entry point, and loads all plugins."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "stdout", sys.stdout)

    def given(*bodies, built_in=(), head=HEAD, seconds=ENOUGH, **named):
        entries = []
        for name, body in {f"plugin{index}": body for index, body in enumerate(bodies)}.items() | named.items():
            module = f"{name}_{tmp_path.name.replace('-', '_')}"
            (tmp_path / f"{module}.py").write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
            entries.append(importlib.metadata.EntryPoint(name, f"{module}:Plugin", user_plugins.ENTRY_POINTS))
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: entries if group else [])
        return load_user_plugins(built_in=built_in, seconds=seconds)

    return given


GOOD = """
def deschedule(self, snapshot, args):
    for pod in snapshot.pods():
        if snapshot.age(pod) > args.max_days:
            yield Evict(pod, f"older than {args.max_days}")
"""


def one_round(loaded, *pods, memory=None, beside=(), **more):
    plugin = loaded.plugins["Mine"]
    points = {"deschedule": ((plugin, plugin.Args()),)} if isinstance(plugin, DeschedulePlugin) else {}
    if isinstance(plugin, FilterPlugin):
        points["filters"] = ((plugin, plugin.Args()),)
    given = list(pods) or [pod("a"), pod("b")]
    return play(given, Profile(name="p", **points), *beside, slots=ROOM, memory=memory, **more)


def test_a_plugin_of_an_installed_package_takes_part_in_a_round(load):
    loaded = load(GOOD)
    assert loaded.faults == ()
    result, snapshot = one_round(loaded, pod("old"), pod("new", created=-5))
    assert evicted(result) == ["old"]
    assert result.decisions[0].reason == "older than 30"
    assert result.decisions[0].pod is snapshot.objects.pods[0], "the pod of the snapshot, not the plugin's copy"


def test_a_plugin_learns_what_became_of_its_candidates_and_its_result_is_a_note(load):
    loaded = load(
        """
        def deschedule(self, snapshot, args):
            verdicts = []
            for pod in snapshot.pods():
                verdict = yield Evict(pod, "x")
                verdicts.append((verdict.accepted, len(list(snapshot.pods()))))
            return str(verdicts)
        """
    )
    result, _ = one_round(loaded)
    assert result.notes == ["profile p: Mine: [(True, 1), (True, 0)]"]


def test_what_a_plugin_keeps_is_there_in_the_next_round(load):
    loaded = load(
        """
        def deschedule(self, snapshot, args):
            snapshot.own_memory["rounds"] = snapshot.own_memory.get("rounds", 0) + 1
            return iter(())
        """
    )
    memory = {}
    one_round(loaded, memory=memory)
    one_round(loaded, memory=memory)
    assert memory["p/Mine"] == {"rounds": 2}


def test_points_are_those_that_the_plugin_has(load):
    plugin = load(GOOD).plugins["Mine"]
    assert isinstance(plugin, DeschedulePlugin)
    assert not isinstance(plugin, BalancePlugin)
    assert not isinstance(plugin, FilterPlugin)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param("def deschedule(self, s, a): raise RuntimeError('no zone')", "RuntimeError: no zone", id="raises"),
        pytest.param("def deschedule(self, s, a): sys.exit(3)", "SystemExit: 3", id="exits"),
        pytest.param("def deschedule(self, s, a):\n  while True: pass", f"{HANGS} (pluginSeconds)", id="loops"),
        pytest.param(
            "def deschedule(self, s, a):\n  yield Evict(next(s.pods()), 'x')\n  while True: pass",
            f"{HANGS} (pluginSeconds)",
            id="loops-after-a-candidate",
        ),
        pytest.param("def deschedule(self, s, a): return ['pod-a']", "yields a str, not an Evict", id="nonsense"),
        pytest.param("def deschedule(self, s, a): return 42", "returned a int, not candidates", id="returns-a-number"),
        pytest.param("def deschedule(self, s, a): return None", "returned a NoneType, not", id="returns-nothing"),
        pytest.param(
            "def deschedule(self, s, a):\n"
            "  import msgspec\n"
            "  pod = next(s.pods())\n"
            "  meta = msgspec.structs.replace(pod.metadata, uid='other')\n"
            "  yield Evict(msgspec.structs.replace(pod, metadata=meta), 'x')",
            "which is not in the snapshot",
            id="pods-that-do-not-exist",
        ),
        pytest.param(
            "def deschedule(self, s, a):\n  pod = next(s.pods())\n  while True: yield Evict(pod, 'again')",
            "yields more than 72 candidates for 2 pods",
            id="yields-for-ever",
        ),
        pytest.param("def deschedule(self, s, a): s.move(next(s.pods()), '')", "a plugin moves no pods", id="moves"),
        pytest.param(
            "def deschedule(self, s, a): s.nodes['n1'] = None", "does not support item assignment", id="replaces-a-node"
        ),
        pytest.param(
            "def deschedule(self, s, a): next(s.pods()).metadata.name = 'x'", "immutable type", id="sets-a-field"
        ),
        pytest.param("def deschedule(self, s, a): a.max_days = 1", "Instance is frozen", id="changes-its-arguments"),
        pytest.param(
            "def deschedule(self, s, a):\n"
            "  class Odd(Exception):\n"
            "    def __str__(self): raise ValueError('no text')\n"
            "  raise Odd()",
            "Odd",
            id="raises-an-error-without-a-text",
        ),
        pytest.param(
            "def deschedule(self, s, a):\n"
            "  class Odd:\n"
            "    def __str__(self): raise ValueError('no text')\n"
            "  yield Evict(next(s.pods()), Odd())",
            "ValueError: no text",
            id="a-reason-without-a-text",
        ),
        pytest.param(
            "def deschedule(self, s, a): yield Evict(next(s.pods()), 'x', receivers=7)",
            "'int' object is not iterable",
            id="receivers-that-are-none",
        ),
        pytest.param("def deschedule(self, s, a): (lambda f: f(f))(lambda f: f(f))", "RecursionError", id="recurses"),
    ],
)
def test_a_plugin_that_misbehaves_is_skipped_and_told_and_others_go_on(load, body, fault):
    loaded = load(body)
    if HANGS in fault:
        loaded.plugins["Mine"].seconds = SECONDS
    result, snapshot = one_round(loaded, beside=[profile(Naming("b"), name="other")])
    (told,) = result.faults
    assert told.message.startswith("profile p: plugin Mine is skipped for the rest of the round: ")
    assert fault in told.message
    assert "uid-ns-b" in snapshot.moved, "the plugin of the other profile was asked"


def test_a_plugin_that_changes_what_it_was_given_changes_copies(load):
    loaded = load(
        """
        def deschedule(self, snapshot, args):
            for node in snapshot.nodes.values():
                node.pods.clear()
                node.requested.clear()
            for pod in snapshot.pods():
                pod.metadata.labels["app"] = "changed"
                pod.metadata.owner_references.clear()
                yield Evict(pod, "x")
            snapshot.moved.clear()
        """
    )
    given = [pod("a", metadata={"labels": {"app": "web"}}), pod("b", metadata={"labels": {"app": "web"}})]
    result, snapshot = one_round(loaded, *given)
    assert result.faults == []
    assert [each.metadata.labels for each in given] == [{"app": "web"}] * 2
    assert all(each.metadata.owner_references for each in given)
    assert len(snapshot.moved) == 2


def test_what_a_plugin_prints_is_no_output_of_the_process(load, capsys):
    loaded = load("def deschedule(self, s, a):\n  print('looking')\n  return iter(())")
    one_round(loaded)
    print("output")  # noqa: T201 - what a command prints
    printed = capsys.readouterr()
    assert (printed.out, "looking" in printed.err) == ("output\n", True)


def test_a_plugin_that_does_not_stop_is_not_asked_again_before_it_has(load):
    loaded = load(
        """
        def deschedule(self, snapshot, args):
            while not done:
                try:
                    time.sleep(0.01)
                except BaseException:
                    pass
            return iter(())
        """,
        head=HEAD.replace("class Plugin", "done = []\n\nclass Plugin"),
    )
    plugin = loaded.plugins["Mine"]
    plugin.seconds = SECONDS
    first, second = (one_round(loaded)[0] for _ in range(2))
    sys.modules[type(plugin._plugin).__module__].done.append(True)
    plugin._thread.join(timeout=ENOUGH)
    plugin.seconds = ENOUGH
    third, _ = one_round(loaded)
    assert HANGS in first.faults[0].message
    assert "still computes for an earlier turn" in second.faults[0].message
    assert third.faults == []


def test_a_thread_that_loops_ends_when_its_time_is_over(load):
    loaded = load("def deschedule(self, s, a):\n  while True: pass")
    loaded.plugins["Mine"].seconds = SECONDS
    one_round(loaded)
    thread = loaded.plugins["Mine"]._thread
    thread.join(timeout=ENOUGH)
    assert not thread.is_alive()


def test_a_plugin_reads_nothing_after_its_turn(load):
    loaded = load(
        """
        def deschedule(self, snapshot, args):
            snapshot.own_memory["view"] = snapshot
            return iter(())
        """
    )
    memory = {}
    one_round(loaded, memory=memory)
    with pytest.raises(RuntimeError, match="the turn of the plugin is over"):
        next(memory["p/Mine"]["view"].pods())


def test_a_plugin_is_closed_at_the_total_limit(load):
    loaded = load(
        """
        def deschedule(self, snapshot, args):
            memory = snapshot.own_memory
            try:
                for pod in snapshot.pods():
                    yield Evict(pod, "x")
            finally:
                memory["closed"] = True
        """
    )
    memory = {}
    result, _ = one_round(loaded, memory=memory, limits=Limits(total=1))
    loaded.plugins["Mine"]._thread.join(timeout=ENOUGH)
    assert (len(evicted(result)), memory["p/Mine"], result.faults) == (1, {"closed": True}, [])


@pytest.mark.parametrize(
    ("body", "gone", "text"),
    [
        pytest.param("return '' if pod.metadata.name == 'a' else 'pod b: is mine'", ["a"], "pod b: is mine", id="text"),
        pytest.param("return None", ["a", "b"], "", id="nothing"),
        pytest.param("return True", [], "filter returned a bool, not a text or None", id="a-bool"),
        pytest.param("raise KeyError('x')", [], "KeyError", id="raises"),
        pytest.param("while True: pass", [], HANGS, id="hangs"),
        pytest.param("pod.metadata.owner_references.clear()", ["a", "b"], "", id="changes-the-pod"),
    ],
)
def test_filters_of_users_protect_and_what_they_do_wrong_protects_as_well(load, body, gone, text):
    loaded = load(f"def filter(self, pod, snapshot, args):\n  {body}")
    plugin = loaded.plugins["Mine"]
    if text == HANGS:
        plugin.seconds = SECONDS
    given = Profile(name="p", deschedule=((Naming("a", "b"), PluginArgs()),), filters=((plugin, plugin.Args()),))
    result, _ = play([pod("a"), pod("b")], given, slots=ROOM)
    assert evicted(result) == gone
    told = [each.message for each in result.faults] + [each.verdict.message for each in result.decisions]
    assert text in " ".join(told)


@pytest.mark.parametrize(
    ("body", "head", "fault"),
    [
        pytest.param("raise ImportError('no module')", HEAD, "ImportError: no module", id="raises-at-import"),
        pytest.param("while True: pass", HEAD, f"{HANGS} (pluginSeconds)", id="hangs-at-import"),
        pytest.param("sys.exit(1)", HEAD, "SystemExit: 1", id="exits-at-import"),
        pytest.param("", HEAD, "has none of deschedule, balance, filter, evict, run", id="does-nothing"),
        pytest.param(GOOD, HEAD.replace('"Mine"', "7"), "name: '7' is no name", id="name-that-is-none"),
        pytest.param(GOOD, HEAD.replace('"Mine"', '"PodLifeTime"'), "is the name of a built-in plugin", id="built-in"),
        pytest.param(GOOD, HEAD.replace("class Args(PluginArgs)", "class Other"), "Args: is missing", id="no-args"),
        pytest.param(
            GOOD,
            HEAD.replace("class Args(PluginArgs)", "class Args"),
            "Args: is no class derived from",
            id="wrong-args",
        ),
        pytest.param(
            "def deschedule(self): yield", HEAD, "deschedule: must take snapshot, args", id="too-few-parameters"
        ),
        pytest.param(
            "async def deschedule(self, s, a): ...", HEAD, "deschedule: must not be a coroutine", id="a-coroutine"
        ),
        pytest.param("def evict(self, d, h): ...", HEAD, "evict: must be a coroutine", id="evict-is-no-coroutine"),
        pytest.param("def __init__(self, more): ...", HEAD, "missing 1 required positional", id="cannot-be-made"),
        pytest.param(
            f"triggers = (Trigger(kind='Pod', when='object.'),){GOOD}", HEAD, "triggers[0].when: ", id="no-expression"
        ),
        pytest.param(
            f"triggers = (Trigger(kind='Secret', when='true'),){GOOD}",
            HEAD,
            "triggers[0].kind: 'Secret' is none of Node, Pod, NodeMetric",
            id="kind-that-is-not-watched",
        ),
        pytest.param(f"triggers = 3{GOOD}", HEAD, "triggers: is no tuple of Trigger", id="triggers-that-are-none"),
    ],
)
def test_what_cannot_be_loaded_is_left_out_and_told_by_its_entry_point(load, body, head, fault):
    loaded = load(body, head=head, built_in={"PodLifeTime"}, seconds=SECONDS if HANGS in fault else ENOUGH)
    (told,) = loaded.faults
    assert told.startswith("entry point plugin0 = plugin0_")
    assert fault in told
    assert told.endswith("; the plugin is left out")
    assert loaded.plugins == {}


def test_of_two_plugins_with_one_name_the_first_entry_point_counts(load):
    loaded = load(b=GOOD, a=GOOD)
    assert [each.partition(" = ")[0] for each in loaded.faults] == ["entry point b"]
    assert loaded.faults[0].endswith("another plugin has the name Mine already")


def test_an_import_that_hangs_holds_up_the_start_for_its_seconds_only(load, monkeypatch):
    class OthersHaveEnough(PluginThread):
        def first(self, *, within):
            return super().first(within=within if self.name == "plugin a" else ENOUGH)

    monkeypatch.setattr(user_plugins, "PluginThread", OthersHaveEnough)
    loaded = load(a="time.sleep(3600)", b=GOOD, seconds=SECONDS)
    assert HANGS in loaded.faults[0]
    assert list(loaded.plugins) == ["Mine"]


def test_evictors_and_controllers_are_found_by_name(load):
    loaded = load("async def evict(self, decision, handle): ...\nasync def run(self, handle): ...")
    assert (list(loaded.evictors), list(loaded.controllers), loaded.faults) == (["Mine"], ["Mine"], ())


def test_without_packages_nothing_is_loaded(load):
    assert load() == user_plugins.UserPlugins()
