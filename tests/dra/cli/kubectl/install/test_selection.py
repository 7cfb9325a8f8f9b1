"""Which objects an installation has, and with which settings."""

import pytest
import yaml

from dra.api.configuration import ControllerConfiguration, ControllerMode
from dra.cli.kubectl.install.selection import CONTROLLER_CONFIG, Selection, SelectionError, object_id
from dra.cli.kubectl.option_values import OPTIONAL_COMPONENTS
from dra.cli.manifests import components


def selection(*optional, mode=ControllerMode.ALONGSIDE, **more):
    return Selection(mode=mode, optional=optional, **more)


def test_every_optional_component_is_one_of_the_package():
    assert all(components.find(name) is not None for name in OPTIONAL_COMPONENTS)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        pytest.param(["reservation"], "reservation: no such component; there are reservations, ", id="unknown"),
        pytest.param(["descheduler"], "descheduler: requires reservations or reservations-yielding", id="alone"),
        pytest.param(["node-topology"], "requires kubelet-plugin or kubelet-plugin-nvidia", id="without-a-plugin"),
        pytest.param(["reservations", "reservations-yielding"], "only one can be installed", id="both"),
        pytest.param(["kubelet-plugin-nvidia", "kubelet-plugin"], "only one can be installed", id="two-plugins"),
    ],
)
def test_what_does_not_go_together_is_refused(names, said):
    with pytest.raises(SelectionError, match=said):
        selection(*names).check()


def test_what_goes_together_is_not():
    selection("descheduler", "reservations", "kubelet-plugin", "node-topology", "gate").check()


@pytest.mark.parametrize(
    ("names", "changed"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param(["reservations"], {"reservations": True}, id="reservations"),
        pytest.param(
            ["reservations-yielding"], {"reservations": True, "placeholders": "yielding"}, id="without-an-extender"
        ),
        pytest.param(["koordinator", "annotate-nodes"], {"koordinator": True, "annotateNodes": True}, id="two"),
    ],
)
def test_components_set_the_fields_that_they_need_and_no_others(names, changed):
    before, after = (yaml.safe_load(each.controller_config()) for each in (selection(), selection(*names)))
    assert {key: value for key, value in after.items() if before[key] != value} == changed
    ControllerConfiguration.model_validate(after)


def test_a_configuration_that_lacks_a_field_gets_it():
    given = selection("koordinator", files={CONTROLLER_CONFIG: "qps: 7"})
    assert yaml.safe_load(given.controller_config()) == {"qps": 7, "koordinator": True}


def test_each_object_is_there_once_even_if_two_components_have_it():
    found = [object_id(each) for each in selection("reservations", "descheduler", "koordinator-devices").objects()]
    assert len(found) == len(set(found))


def test_mode_and_image_reach_the_controller():
    objects = selection(mode=ControllerMode.REPLACE, image="registry.example.com/dra-reserve:2").objects()
    (found,) = (
        each
        for each in objects
        if each["metadata"]["name"] == "dra-reserve-controller" and each["kind"] == "Deployment"
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert "--mode=replace" in container["args"]
    assert container["image"] == "registry.example.com/dra-reserve:2"


def test_the_plugin_reports_devices_where_it_has_the_right():
    def arguments(*names):
        (found,) = (each for each in selection(*names).objects() if each["kind"] == "DaemonSet")
        return found["spec"]["template"]["spec"]["containers"][0]["args"]

    assert "--koordinator-devices" not in arguments("kubelet-plugin")
    assert arguments("kubelet-plugin", "koordinator-devices")[-1] == "--koordinator-devices"
