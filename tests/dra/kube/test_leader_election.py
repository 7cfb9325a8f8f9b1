import asyncio
import contextlib
import json

import pytest

from dra.kube.errors import Unreachable
from dra.kube.leader_election import LeaderElector, LeadershipLostError, StoodDownError
from dra.kube.lease_rules import LONG_PAST, STAND_DOWN, ElectionTimings, Lease
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import LEASES
from tests.dra.kube.scripted import BROKEN, REFUSED, Handling, body_of, client_of, ok, refusal
from tests.dra.kube.virtual import JumpingClock, LoopClock, seeded

KEY = ("dra", "controller")


class LeaseServer:
    """One Lease object with resourceVersions, behind a network that can be cut for each candidate."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.unmade = None
        """Answer to creations of the lease; None: it is created."""
        self.cut = {}
        """Candidate → what its requests meet instead of the server."""
        self.lost_answers = set()
        """Candidates whose writes happen, but whose answers get lost."""
        self.writes = []
        self.clients = {}

    def candidate(self, identity, clock, **options):
        client = self.clients[identity] = client_of(Handling(lambda request: self._handle(identity, request)))
        return LeaderElector(client, key=KEY, identity=identity, clock=clock, random=seeded(1), **options)

    def _handle(self, who, request):
        if who in self.cut:
            return self.cut[who]
        answer = {"GET": self._get, "POST": self._create, "PATCH": self._patch}[request.method](request)
        if request.method != "GET" and answer is not self.unmade:
            self.writes.append((who, answer.status))
            if who in self.lost_answers:
                return BROKEN
        return answer

    def _get(self, _request):
        return refusal(404, "NotFound") if self.lease is None else ok(self.lease)

    def _create(self, request):
        if self.unmade is not None:
            return self.unmade
        if self.lease is not None:
            return refusal(409, "AlreadyExists")
        return self._store(body_of(request)["spec"], 201)

    def _patch(self, request):
        if self.lease is None:
            return refusal(404, "NotFound")
        body = body_of(request)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict")
        annotations = {**(self.lease["metadata"]["annotations"] or {}), **(body["metadata"].get("annotations") or {})}
        return self._store({**self.lease["spec"], **body["spec"]}, 200, {k: v for k, v in annotations.items() if v})

    def note(self, **annotations):
        """Somebody annotates the lease, or with None takes the note off."""
        noted = {**(self.lease["metadata"]["annotations"] or {}), **annotations}
        self._store(self.lease["spec"], 200, {k: v for k, v in noted.items() if v})

    def _store(self, spec, status, annotations=None):
        self.version += 1
        meta = {"namespace": KEY[0], "name": KEY[1], "resourceVersion": str(self.version), "annotations": annotations}
        self.lease = json.loads(json.dumps({"metadata": meta, "spec": spec}))
        return ok(self.lease, status=status)

    @property
    def spec(self):
        return self.lease["spec"]


@pytest.fixture
def server():
    return LeaseServer()


def is_leader(election):
    return election._clock.now() < election.write_deadline


@contextlib.asynccontextmanager
async def held(election):
    task = asyncio.create_task(election.renew())
    yield task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, LeadershipLostError):
        await task


async def test_the_first_one_makes_the_lease_and_need_not_wait(server, clock):
    one = server.candidate("one", clock)
    assert not is_leader(one)
    assert one.write_deadline == LONG_PAST
    await one.acquire()
    assert is_leader(one)
    assert clock.now() == 0.0
    assert one.previous_writes_until == LONG_PAST
    assert one.write_deadline == 14.0
    assert server.spec["holderIdentity"] == "one"
    assert server.spec["leaseDurationSeconds"] == 15
    assert server.spec["renewTime"] == "2026-11-20T12:00:00.000001Z"


async def test_a_leader_renews_and_its_writes_may_go_on(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    async with held(one) as task:
        await asyncio.sleep(3600.0)
        assert not task.done()
        assert is_leader(one)
        assert one.write_deadline >= clock.now() + 12.0
    assert server.spec["acquireTime"] == "2026-11-20T12:00:00.000000Z"
    assert server.spec["leaseTransitions"] == 0


@pytest.mark.parametrize("clock", [JumpingClock(seed=1), JumpingClock()], ids=["jumps", "stands-still"])
async def test_the_time_of_day_decides_nothing(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    async with held(one) as task:
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(600.0)
        assert not waiting.done()
        assert not task.done()
    killed = clock.now()
    await waiting
    assert 12.0 <= clock.now() - killed <= 17.5


async def test_only_one_leads_and_the_other_waits(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    async with held(one):
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(600.0)
        assert not waiting.done()
        assert (is_leader(two), two.holder) == (False, "one")
        waiting.cancel()


async def test_two_that_start_together_do_not_both_win(server, clock):
    candidates = [server.candidate(name, clock) for name in ("one", "two", "three")]
    tasks = [asyncio.create_task(each.acquire()) for each in candidates]
    await asyncio.sleep(5.0)
    assert sorted(task.done() for task in tasks) == [False, False, True]
    for task in tasks:
        task.cancel()


async def test_after_a_crash_the_next_one_waits_for_the_end_of_the_lease_and_then_for_late_writes(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()  # and is never heard of again
    await two.acquire()
    assert 15.0 <= clock.now() <= 15.1
    assert one.write_deadline < clock.now()
    assert not is_leader(one)
    assert two.previous_writes_until == pytest.approx(clock.now() + 10.0)
    assert server.spec["leaseTransitions"] == 1


@pytest.mark.parametrize("started", [0.1, 0.7, 1.3, 1.9, 2.5], ids=str)
async def test_a_standby_takes_the_lease_the_moment_that_it_ends(server, clock, started):
    """However its looks fall: the last renewal is seen a look later, and the end of the lease is not slept through."""
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    async with held(one):
        await asyncio.sleep(started)
        taking = asyncio.create_task(two.acquire())
        await asyncio.sleep(60.0)
        killed = clock.now()
    server.cut["one"] = REFUSED
    await taking
    assert 13.0 <= clock.now() - killed <= 15.0 + 2.4 + 0.1


async def test_a_lease_given_back_is_taken_at_once(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    await one.release()
    assert not is_leader(one)
    assert server.spec["holderIdentity"] == ""
    await two.acquire()
    assert clock.now() == 0.0
    assert two.previous_writes_until == LONG_PAST


async def test_who_gives_a_lease_back_with_a_write_under_way_leaves_the_next_one_careful(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    server.lost_answers.add("one")
    with pytest.raises(Unreachable):
        await server.clients["one"].create(LEASES, {"metadata": {"name": "other"}, "spec": {}}, model=Lease)
    server.lost_answers.clear()
    await one.release()
    await two.acquire()
    assert two.previous_writes_until == pytest.approx(10.0)


async def test_a_restart_under_the_same_name_is_a_new_leader(server, clock):
    await server.candidate("one", clock).acquire()
    again = server.candidate("one", clock)
    await again.acquire()
    assert clock.now() == 0.0
    assert again.previous_writes_until == pytest.approx(25.0)


@pytest.mark.parametrize("failure", [REFUSED, BROKEN, refusal(500), refusal(403, "Forbidden")], ids=str)
async def test_who_cannot_renew_steps_down_in_time(server, clock, failure):
    one = server.candidate("one", clock)
    await one.acquire()
    server.cut["one"] = failure
    with pytest.raises(LeadershipLostError, match=r"^lease dra/controller: not renewed \("):
        await one.renew()
    assert 10.0 <= clock.now() <= 12.0
    assert not is_leader(one)


async def test_a_short_outage_costs_nothing(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    async with held(one) as task:
        await asyncio.sleep(3.0)
        server.cut["one"] = BROKEN
        await asyncio.sleep(7.0)
        del server.cut["one"]
        await asyncio.sleep(5.0)
        assert not task.done()
        assert is_leader(one)
        assert one.failure is None


async def test_a_server_that_does_not_answer_is_asked_more_than_once_before_giving_up(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    asked = []

    async def silent(request):
        asked.append(clock.now())
        await asyncio.sleep(request.timeout)
        return BROKEN

    one._client = client_of(Handling(silent))
    with pytest.raises(LeadershipLostError):
        await one.renew()
    assert len(asked) >= 2
    assert clock.now() <= 12.5


async def test_a_renewal_whose_answer_is_lost_is_recognized(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    async with held(one) as task:
        server.lost_answers.add("one")
        await asyncio.sleep(3.0)
        server.lost_answers.clear()
        await asyncio.sleep(10.0)
        assert not task.done()
        assert is_leader(one)


async def test_taking_a_lease_without_hearing_of_it_is_careful(server, clock):
    one = server.candidate("one", clock)
    server.lost_answers.add("one")
    task = asyncio.create_task(one.acquire())
    await asyncio.sleep(1.0)
    assert not is_leader(one)
    server.lost_answers.clear()
    await task
    assert one.previous_writes_until == pytest.approx(clock.now() + 25.0)


async def test_a_leader_sees_that_the_lease_was_taken_from_it(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    server._store({**server.spec, "holderIdentity": "two"}, 200)
    with pytest.raises(LeadershipLostError, match=r"^lease dra/controller: held by two$"):
        await one.renew()
    assert clock.now() <= 5.0
    assert server.spec["holderIdentity"] == "two"


async def test_a_leader_whose_lease_was_emptied_steps_down(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    server._store({**server.spec, "holderIdentity": ""}, 200)
    with pytest.raises(LeadershipLostError, match=r"^lease dra/controller: held by nobody$"):
        await one.renew()
    assert server.spec["holderIdentity"] == ""


async def test_somebody_elses_annotation_on_the_lease_costs_nothing(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    async with held(one) as task:
        for _ in range(10):
            server._store(server.spec, 200)  # a new resourceVersion
            await asyncio.sleep(3.0)
        assert not task.done()
        assert is_leader(one)


async def test_a_lease_that_somebody_deletes_is_made_again(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    async with held(one) as task:
        server.lease = None
        await asyncio.sleep(10.0)
        assert not task.done()
        assert is_leader(one)
    assert server.spec["holderIdentity"] == "one"


async def test_a_lease_that_somebody_deletes_is_no_chance_for_another(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(1.0)
    server.lease = None
    await asyncio.sleep(10.0)
    assert not waiting.done()  # one does not renew, but it may still write
    await waiting
    assert one.write_deadline < clock.now()
    assert two.previous_writes_until == pytest.approx(clock.now() + 10.0)


async def test_who_lost_may_try_again(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    server._store({**server.spec, "holderIdentity": "two"}, 200)
    with pytest.raises(LeadershipLostError):
        await one.renew()
    await one.acquire()
    assert is_leader(one)
    assert server.spec["leaseTransitions"] == 1


async def test_giving_back_what_is_not_ours_does_nothing(server, clock):
    await server.candidate("one", clock).acquire()
    two = server.candidate("two", clock)
    await two.release()
    assert server.spec["holderIdentity"] == "one"


async def test_giving_back_is_best_effort(server, clock, caplog):
    one = server.candidate("one", clock)
    await one.acquire()
    server.cut["one"] = REFUSED
    await one.release()
    assert not is_leader(one)
    assert "it will expire" in caplog.text


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        pytest.param(
            refusal(404, "NotFound", 'namespaces "dra" not found', kind="namespaces", name="dra"),
            'namespaces "dra" not found; create this namespace, or name another one in leaderElection.namespace',
            id="namespace-is-missing",
        ),
        pytest.param(
            refusal(403, "Forbidden", "cannot create leases"),
            "cannot create leases; leaderElection.namespace and leaderElection.name must be those for which the "
            "account has a Role",
            id="no-right",
        ),
        pytest.param(REFUSED, "refused", id="no-answer"),
    ],
)
async def test_what_keeps_a_candidate_from_its_lease_is_told_with_advice_once_a_minute(
    server, clock, caplog, failure, advice
):
    one = server.candidate("one", clock)
    server.unmade = failure
    waiting = asyncio.create_task(one.acquire())
    await asyncio.sleep(50.0)
    (told,) = caplog.messages
    assert told.startswith("Lease dra/controller: ")
    assert told.endswith(advice)
    await asyncio.sleep(60.0)
    assert len(caplog.messages) == 2
    server.unmade = None
    await waiting


async def test_a_failure_that_comes_again_after_success_is_told_again(server, clock, caplog):
    one = server.candidate("one", clock)
    await one.acquire()
    async with held(one):
        for _ in range(2):
            server.cut["one"] = REFUSED
            await asyncio.sleep(5.0)
            server.cut.clear()
            await asyncio.sleep(5.0)
    assert len([text for text in caplog.messages if "acquired" not in text]) == 2


async def test_renewals_do_not_wait_behind_other_requests(server, clock):
    one = server.candidate("one", clock)
    limiter = RateLimiter(1, 1, clock=clock)
    one._client._sender._limiter = limiter
    backlog = [asyncio.create_task(limiter.acquire()) for _ in range(100)]
    await one.acquire()
    async with held(one) as task:
        await asyncio.sleep(60.0)
        assert not task.done()
        assert is_leader(one)
    for each in backlog:
        each.cancel()


@pytest.mark.parametrize(
    "clock",
    [
        pytest.param(LoopClock(), id="time-passes"),
        pytest.param(JumpingClock(seed=3), id="time-of-day-jumps"),
        pytest.param(JumpingClock(), id="time-of-day-stands-still"),
    ],
)
async def test_in_no_second_do_two_lead_whatever_the_network_does(server, clock):
    """Three candidates, cut off and heard again at random: nobody may write while somebody else may."""
    chance = seeded(5)
    terms = ElectionTimings(lease_duration=5, renew_deadline=3.0, retry_period=1.0, request_timeout=2.0)
    candidates = {name: server.candidate(name, clock, terms=terms) for name in ("one", "two", "three")}
    leaders = set()

    async def stand(election):
        while True:
            await election.acquire()
            with contextlib.suppress(LeadershipLostError):
                await election.renew()

    tasks = [asyncio.create_task(stand(each)) for each in candidates.values()]
    for _ in range(2000):
        await asyncio.sleep(0.5)
        leading = [name for name, each in candidates.items() if is_leader(each)]
        assert len(leading) <= 1
        leaders.update(leading)
        if chance.random() < 0.1:
            name = chance.choice(list(candidates))
            if server.cut.pop(name, None) is None:
                server.cut[name] = chance.choice([REFUSED, BROKEN])
        if chance.random() < 0.1:
            server.lost_answers ^= {chance.choice(list(candidates))}
    assert leaders == set(candidates)
    for task in tasks:
        task.cancel()


async def test_a_leader_that_is_told_to_stand_down_gives_the_lease_back(server, clock):
    one = server.candidate("one", clock)
    await one.acquire()
    server.note(**{STAND_DOWN: "for a downgrade"})
    began = clock.now()
    with pytest.raises(StoodDownError, match="ordered to stand down"):
        await one.renew()
    assert clock.now() - began <= 3 * ElectionTimings().retry_period
    assert is_leader(one)  # until its work has ended, nobody else may begin
    await one.release()
    assert server.spec["holderIdentity"] == ""
    assert server.lease["metadata"]["annotations"][STAND_DOWN] == "for a downgrade"


async def test_nobody_takes_a_lease_that_is_to_be_left_alone_until_that_is_over(server, clock):
    one, two = server.candidate("one", clock), server.candidate("two", clock)
    await one.acquire()
    server.note(**{STAND_DOWN: "for a downgrade"})
    await one.release()
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(120)
    assert not is_leader(two)
    assert server.spec["holderIdentity"] in {"", "one"}
    server.note(**{STAND_DOWN: None})
    await asyncio.sleep(5)
    assert is_leader(two)
    await waiting


async def test_whoever_needs_the_silence_takes_the_lease_in_spite_of_it(server, clock):
    one, quiet = server.candidate("one", clock), server.candidate("quiet", clock, ignore_stand_down=True)
    await one.acquire()
    server.note(**{STAND_DOWN: "for a downgrade"})
    with pytest.raises(StoodDownError):
        await one.renew()
    await one.release()
    await quiet.acquire()
    async with held(quiet):
        await asyncio.sleep(60)
        assert is_leader(quiet)


@pytest.mark.parametrize("read", ["write_deadline", "previous_writes_until"])
async def test_times_can_be_read_while_another_thread_ends_the_tenure(server, clock, read):
    one = server.candidate("one", clock)
    await one.acquire()

    class Ending(LeaderElector):
        """Each read of the tenure is the last one that finds it."""

        @property
        def _tenure(self):
            return self.__dict__.pop("_tenure", None)

    one.__class__ = Ending
    assert getattr(one, read) in (14.0, LONG_PAST)
    assert getattr(one, read) == LONG_PAST
