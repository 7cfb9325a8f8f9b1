"""What `kubectl dra approve` and `kubectl dra reject` write, refuse and say."""

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.migrations.approvals import Answers
from dra.kube.errors import Forbidden, Status
from tests.dra.cli.kubectl.migrate.conftest import JOBS

REQUIRED = {"reserve.dra/approval": "Required"}


async def propose(site, name, *, paused=True, annotations=REQUIRED):
    spec = {"podRef": {"namespace": "default", "name": "web"}, "paused": paused}
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob"}
    await site.request("POST", JOBS, {**kind, "metadata": {"name": name, "annotations": annotations}, "spec": spec})


async def approve(site, *names, dry_run=False):
    return await Answers(approved=True, dry_run=dry_run).give(site.connection(), names)


async def reject(site, *names, dry_run=False):
    return await Answers(approved=False, dry_run=dry_run).give(site.connection(), names)


async def test_an_approved_job_is_no_longer_paused_and_the_others_still_are(site, capsys):
    await propose(site, "a")
    await propose(site, "b")
    assert await approve(site, "a")
    found = await site.jobs()
    assert {name: each["spec"].get("paused", False) for name, each in found.items()} == {"a": False, "b": True}
    assert capsys.readouterr().out == "podmigrationjob.scheduling.koordinator.sh/a approved\n"


async def test_a_rejected_job_is_aborted_and_says_that_the_pod_stays(site, capsys):
    await propose(site, "a")
    assert await reject(site, "a")
    status = (await site.jobs())["a"]["status"]
    assert (status["phase"], status["reason"]) == ("Aborted", "Rejected")
    assert "the pod stays" in status["message"]
    assert capsys.readouterr().out == "podmigrationjob.scheduling.koordinator.sh/a rejected\n"


async def test_without_names_all_that_wait_are_answered_and_no_other_job(site):
    await propose(site, "a")
    await propose(site, "b")
    await propose(site, "of-a-person", annotations={})
    assert await approve(site)
    paused = {name for name, each in (await site.jobs()).items() if each["spec"].get("paused")}
    assert paused == {"of-a-person"}


async def test_a_dry_run_writes_nothing(site, capsys):
    await propose(site, "a")
    assert await approve(site, "a", dry_run=True)
    assert (await site.jobs())["a"]["spec"]["paused"] is True
    assert capsys.readouterr().out.endswith("/a approved (dry run)\n")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(approve, "podmigrationjob a: does not wait for approval (phase Succeeded)", id="approve"),
        pytest.param(reject, "podmigrationjob a: has ended (phase Succeeded)", id="reject"),
    ],
)
async def test_a_job_that_has_ended_cannot_be_answered_and_does_not_stop_the_others(site, capsys, answer, told):
    await propose(site, "a")
    await propose(site, "b")
    await site.set_status("a", phase="Succeeded")
    assert not await answer(site, "a", "b")
    printed = capsys.readouterr()
    assert printed.err == f"{told}\n"
    assert "/b " in printed.out


async def test_a_job_that_a_person_paused_does_not_begin_by_an_approval(site, capsys):
    await propose(site, "a", annotations={})
    assert not await approve(site, "a")
    assert (await site.jobs())["a"]["spec"]["paused"] is True
    assert "does not wait for approval" in capsys.readouterr().err


async def test_an_unknown_name_offers_those_that_wait(site, capsys):
    await propose(site, "web-1-0a1b2c3d")
    assert not await approve(site, "web-1-0a1b2c3")
    assert capsys.readouterr().err == (
        "migration web-1-0a1b2c3: not found. Did you mean web-1-0a1b2c3d?. See: kubectl dra migrations\n"
    )


async def test_who_may_not_write_is_told_and_nothing_changes(site, monkeypatch, capsys):
    await propose(site, "a")
    connection = site.connection()

    async def refuse(*_, **__):
        raise Forbidden("PodMigrationJob a", Status(code=403, message="no right to patch it"))

    monkeypatch.setattr(connection.client, "merge_patch", refuse)
    assert not await Answers(approved=True, dry_run=False).give(connection, ("a",))
    assert capsys.readouterr().err.startswith("migration a: ")
    assert (await site.jobs())["a"]["spec"]["paused"] is True


async def test_that_nothing_waits_is_said(site, capsys):
    assert await approve(site)
    assert capsys.readouterr().err == "no migration waits for approval\n"


@pytest.mark.parametrize("arguments", [["approve"], ["reject"], ["approve", "a", "--all"]], ids=" ".join)
def test_either_names_or_all_must_be_given(arguments):
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, "give the names of migrations, or --all" in done.stderr) == (2, True)


async def test_a_job_whose_status_the_descheduler_writes_meanwhile_is_approved_all_the_same(site, monkeypatch):
    await propose(site, "a")
    connection = site.connection()
    write, written = connection.client.merge_patch, []

    async def after_a_report(*arguments, **options):
        if not written:
            written.append(True)
            await site.set_status("a", reason="ApprovalRequired")
        return await write(*arguments, **options)

    monkeypatch.setattr(connection.client, "merge_patch", after_a_report)
    assert await Answers(approved=True, dry_run=False).give(connection, ("a",))
    assert (await site.jobs())["a"]["spec"].get("paused", False) is False


async def test_a_job_that_ends_meanwhile_is_not_approved(site, monkeypatch, capsys):
    await propose(site, "a")
    connection = site.connection()
    write = connection.client.merge_patch

    async def after_its_end(*arguments, **options):
        await site.set_status("a", phase="Failed")
        return await write(*arguments, **options)

    monkeypatch.setattr(connection.client, "merge_patch", after_its_end)
    assert not await Answers(approved=True, dry_run=False).give(connection, ("a",))
    assert capsys.readouterr().err == "podmigrationjob a: does not wait for approval (phase Failed)\n"
