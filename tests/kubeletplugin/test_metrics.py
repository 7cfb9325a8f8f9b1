"""Metrics are by driver and operation; several plugins in one process do not mix theirs."""

from kubeletplugin.metrics import PluginMetrics


def test_a_call_is_counted_with_its_time_and_what_was_refused():
    metrics = PluginMetrics()
    metrics.observe("gpu.reserve.dra", "prepare", seconds=0.003, refused=2)
    text = metrics.render().decode()
    labels = '{driver="gpu.reserve.dra",operation="prepare"}'
    assert f"dra_reserve_plugin_call_seconds_count{labels} 1.0" in text
    assert f"dra_reserve_plugin_claims_refused_total{labels} 2.0" in text


def test_each_plugin_has_its_own():
    first, second = PluginMetrics(), PluginMetrics()
    first.observe("a", "prepare", seconds=1.0, refused=0)
    assert b'driver="a"' not in second.render()
