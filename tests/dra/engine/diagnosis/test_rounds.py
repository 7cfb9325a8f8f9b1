"""Rounds as the jobs of the descheduler show them."""

from dra.engine.diagnosis import migrations
from dra.engine.diagnosis.rounds import rounds
from tests.dra.engine.diagnosis.test_migrations import EVICTING, PROPOSED, WAIT, job, unapproved


def of_round(began, *conditions, plugin="LowNodeLoad", **more):
    annotations = PROPOSED | {"reserve.dra/descheduling-round": began, "koordinator.sh/evict-trigger": plugin}
    return job(*conditions, annotations=annotations, **more)


def told(*jobs):
    return list(rounds(migrations.explain(each) for each in jobs))


def test_the_newest_round_comes_first_with_the_plugins_of_its_jobs():
    early, late = "2026-11-24T11:00:00Z", "2026-11-24T11:05:00Z"
    found = told(of_round(early), of_round(late), of_round(late, plugin="RemoveDuplicates"))
    assert [(each.began, each.jobs, each.plugins) for each in found] == [
        (late, 2, ("LowNodeLoad", "RemoveDuplicates")),
        (early, 1, ("LowNodeLoad",)),
    ]
    assert found[0].profiles == ("default",)


def test_jobs_are_counted_by_where_they_are():
    (found,) = told(
        unapproved(),
        of_round("2026-11-24T11:59:00Z", WAIT, passed=False),
        of_round("2026-11-24T11:59:00Z", EVICTING),
        of_round("2026-11-24T11:59:00Z", phase="Succeeded"),
        of_round("2026-11-24T11:59:00Z", phase="Failed"),
        of_round("2026-11-24T11:59:00Z", phase="Aborted"),
    )
    assert (found.unapproved, found.waiting, found.moving, found.moved, found.ended) == (1, 1, 1, 1, 2)
    assert found.jobs == 6


def test_jobs_of_people_belong_to_no_round():
    assert told(job()) == []
