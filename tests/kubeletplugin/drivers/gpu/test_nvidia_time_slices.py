"""Time slices are set with nvidia-smi, once for each change, and set back."""

import logging

import pytest

from dra.api.parameters.gpu import TimeSliceInterval
from kubeletplugin.drivers.gpu import nvidia_time_slices
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.nvidia_time_slices import NvidiaSmiTimeSlicingManager
from kubeletplugin.drivers.gpu.time_slice_record import TimeSliceRecord

DEFAULT, LONG, SHORT = TimeSliceInterval.DEFAULT, TimeSliceInterval.LONG, TimeSliceInterval.SHORT


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
    return started(tmp_path)


def started(folder):
    """What a process that has just been started has."""
    return NvidiaSmiTimeSlicingManager(DriverRoot(here=folder), TimeSliceRecord(folder / "time-slices.json"))


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


async def test_after_a_reload_of_the_kernel_driver_all_is_set_again(slicing, tmp_path):
    await slicing.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    slicing.forget()
    await slicing.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    assert calls(tmp_path) == ["compute-policy -i GPU-1 --set-timeslice 3"] * 2


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
    assert "time slice Default cannot be set: nvidia-smi failed; retrying" in caplog.text
    smi()
    await slicing.apply({"GPU-0": DEFAULT})
    assert len(calls(tmp_path)) == 2, "not every few seconds"
    slicing._reset_retry_at.clear()
    await slicing.apply({"GPU-0": DEFAULT})
    await slicing.apply({"GPU-0": DEFAULT})
    assert len(calls(tmp_path)) == 3


async def test_a_gpu_that_refuses_time_slices_need_not_be_set_back(slicing, smi, tmp_path):
    smi("echo not supported; exit 3")
    assert "not supported" in (await slicing.apply({"GPU-0": LONG}))["GPU-0"]
    await slicing.apply({"GPU-0": DEFAULT})
    await started(tmp_path).apply({"GPU-0": DEFAULT})
    assert len(calls(tmp_path)) == 1


async def test_a_program_that_hangs_is_ended_and_not_started_for_that_gpu_again_for_a_while(
    slicing, smi, tmp_path, monkeypatch
):
    monkeypatch.setattr(nvidia_time_slices, "NVIDIA_SMI_TIMEOUT", 1.0)
    smi("exec sleep 600")
    for _ in range(2):
        assert "nvidia-smi has not answered" in (await slicing.apply({"GPU-0": LONG}))["GPU-0"]
    assert len(calls(tmp_path)) == 1
    smi()
    assert await slicing.apply({"GPU-1": LONG}) == {}
    monkeypatch.setattr(slicing, "_hung_until", {"GPU-0": 0.0})
    assert await slicing.apply({"GPU-0": LONG, "GPU-1": LONG}) == {}


async def test_without_the_program_there_is_a_reason(tmp_path):
    slicing = started(tmp_path)
    assert slicing.unavailable_reason == f"no nvidia-smi found below {tmp_path}"
    assert "no nvidia-smi found" in (await slicing.apply({"GPU-0": LONG}))["GPU-0"]
    assert await slicing.apply({"GPU-0": DEFAULT}) == {}


async def test_what_a_process_that_died_had_set_is_set_back_by_the_next(slicing, tmp_path):
    await slicing.apply({"GPU-0": LONG, "GPU-1": LONG})
    again = started(tmp_path)
    await again.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    assert sorted(calls(tmp_path)[2:]) == [
        "compute-policy -i GPU-0 --set-timeslice 0",
        "compute-policy -i GPU-1 --set-timeslice 3",  # a reboot may have been in between
    ]
    await again.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    assert len(calls(tmp_path)) == 4


async def test_a_gpu_that_is_away_is_set_back_when_it_returns(slicing, tmp_path):
    await slicing.apply({"GPU-0": LONG})
    again = started(tmp_path)
    await again.apply({})
    await again.apply({"GPU-0": DEFAULT})
    assert calls(tmp_path)[1:] == ["compute-policy -i GPU-0 --set-timeslice 0"]


async def test_the_two_instances_of_a_rolling_update_know_what_the_other_has_set(slicing, tmp_path):
    other = started(tmp_path)
    await slicing.apply({"GPU-0": LONG})
    await other.apply({"GPU-0": DEFAULT})
    await slicing.apply({"GPU-0": LONG})
    assert [call[-1] for call in calls(tmp_path)] == ["3", "0", "3"]


async def test_a_gpu_whose_record_cannot_be_written_is_not_set(slicing, tmp_path):
    (tmp_path / ".time-slices.json.tmp").mkdir()
    failed = await slicing.apply({"GPU-0": LONG, "GPU-1": DEFAULT})
    why = f"{tmp_path}/time-slices.json cannot be written: Is a directory"
    assert failed == {"GPU-0": f"GPU GPU-0: time slice Long cannot be set: {why}"}
    assert calls(tmp_path) == []


@pytest.mark.parametrize("content", ["{", '{"gpus": {"GPU-0": "Eternal"}}', "[]", '{"gpus": 3}'])
async def test_a_record_that_cannot_be_understood_is_told_and_claims_set_theirs(slicing, tmp_path, caplog, content):
    path = tmp_path / "time-slices.json"
    path.write_text(content)
    await slicing.apply({"GPU-0": DEFAULT, "GPU-1": LONG})
    assert f"file {path}: cannot be parsed" in caplog.text
    assert calls(tmp_path) == ["compute-policy -i GPU-1 --set-timeslice 3"]
    assert path.stat().st_mode & 0o777 == 0o600
