"""Several drivers, one process; what runs is in conformance/."""

import os

import pytest

from dra.engine.cpus.cpusets import parse
from kubeletplugin.colocation.batch_pods.suppression_mark import MARK_NAME, SuppressionMark
from tests.kubeletplugin.colocation.batch_pods.machine import Writer
from tests.kubeletplugin.driver import SmallDriver
from tests.kubeletplugin.kubelet import until
from tests.kubeletplugin.node import Node


@pytest.fixture
def node(short_path):
    return Node(short_path)


def test_a_driver_may_be_named_once(node):
    with pytest.raises(ValueError, match=r"drivers a\.example, a\.example: name each driver once"):
        node.application(SmallDriver(name="a.example"), SmallDriver(name="a.example"))


def test_before_it_runs_each_driver_says_why_it_is_of_no_use_and_so_do_the_metrics(node):
    application = node.application(SmallDriver(name="a.example"), SmallDriver(name="b.example"))
    not_ready_reasons = application.not_ready_reasons()
    for name in ("a.example", "b.example"):
        assert f"driver {name}: not started yet" in not_ready_reasons
        assert f"driver {name}: the kubelet has not registered it yet" in not_ready_reasons
        assert f'dra_reserve_plugin_registered{{driver="{name}"}} 0.0' in application.render().decode()


class LimitedDriver(SmallDriver, Writer):
    """A driver whose earlier process has limited the class BestEffort to two CPUs."""

    def __init__(self):
        SmallDriver.__init__(self)
        Writer.__init__(self, None)
        self.best_effort_limit = parse("0-1")


def test_without_colocation_the_limit_of_the_class_best_effort_is_lifted(node):
    driver = LimitedDriver()
    node.application(driver)
    assert str(driver.best_effort_limit) == ""


async def test_without_colocation_a_quota_that_cannot_be_lifted_keeps_its_mark_and_the_plugin_runs(node, caplog):
    await node.create()
    SuppressionMark(node.cdi).set(("no-such-cgroup",))
    os.utime(node.cdi / MARK_NAME, (0, 0))
    async with node.plugin():
        await until(lambda: "may stay held back" in caplog.text)
    assert SuppressionMark(node.cdi).is_set
