"""Several drivers, one process; what runs is in conformance/."""

import pytest

from tests.kubeletplugin.driver import SmallDriver
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
