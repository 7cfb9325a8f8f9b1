"""Time slices are set with nvidia-smi, once for each change, and set back."""

import logging

import pytest

from dra.api.parameters.gpu import TimeSlice
from kubeletplugin.drivers.gpu import time_slices
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.time_slices import SmiTimeSlicing

DEFAULT, LONG, SHORT = TimeSlice.DEFAULT, TimeSlice.LONG, TimeSlice.SHORT


@pytest.fixture
def smi(tmp_path):
    """A program that writes down how it is called, and does what a test says."""
    program = tmp_path / "usr" / "bin" / "nvidia-smi"
    program.parent.mkdir(parents=True)

    def behave(does=""):
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{does}\n')
        program.chmod(0o755)

    behave()
    return behave


@pytest.fixture
def slicing(tmp_path, smi):
    del smi
    return SmiTimeSlicing(DriverRoot(here=tmp_path))


def calls(folder):
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


async def test_only_what_changes_is_set(slicing, tmp_path):
    await slicing.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    await slicing.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    assert calls(tmp_path) == ["compute-policy -i GPU-1 --set-timeslice 3"]
    await slicing.apply({"GPU-0": SHORT, "GPU-1": DEFAULT})
    assert sorted(calls(tmp_path)[1:]) == [
        "compute-policy -i GPU-0 --set-timeslice 1",
        "compute-policy -i GPU-1 --set-timeslice 0",
    ]


async def test_a_failure_is_told_in_the_programs_words_and_tried_again(slicing, smi, tmp_path):
    smi("echo Unable to set >&2; exit 4")
    failed = await slicing.apply({"GPU-0": LONG, "GPU-1": DEFAULT})
    assert failed == {"GPU-0": "GPU GPU-0: time slice Long cannot be set: Unable to set"}
    smi()
    await slicing.apply({"GPU-0": LONG})
    assert len(calls(tmp_path)) == 2


async def test_a_failure_to_set_back_is_nobodys_refusal(slicing, smi, caplog, tmp_path):
    await slicing.apply({"GPU-0": LONG})
    smi("exit 1")
    with caplog.at_level(logging.WARNING):
        assert await slicing.apply({"GPU-0": DEFAULT}) == {}
    assert "time slice Default cannot be set: nvidia-smi failed; it is tried again" in caplog.text
    smi()
    await slicing.apply({"GPU-0": DEFAULT})
    assert len(calls(tmp_path)) == 3


async def test_a_program_that_hangs_is_ended_and_not_started_for_that_gpu_again_for_a_while(
    slicing, smi, tmp_path, monkeypatch
):
    monkeypatch.setattr(time_slices, "TIMEOUT_SECONDS", 1.0)
    smi("exec sleep 600")
    for _ in range(2):
        assert "nvidia-smi has not answered" in (await slicing.apply({"GPU-0": LONG}))["GPU-0"]
    assert len(calls(tmp_path)) == 1
    smi()
    assert await slicing.apply({"GPU-1": LONG}) == {}
    monkeypatch.setattr(slicing, "_hung", {"GPU-0": 0.0})
    assert await slicing.apply({"GPU-0": LONG, "GPU-1": LONG}) == {}


async def test_without_the_program_there_is_a_reason(tmp_path):
    slicing = SmiTimeSlicing(DriverRoot(here=tmp_path))
    assert slicing.unable == f"there is no nvidia-smi below {tmp_path}"
    assert "there is no nvidia-smi" in (await slicing.apply({"GPU-0": LONG}))["GPU-0"]
    assert await slicing.apply({"GPU-0": DEFAULT}) == {}
