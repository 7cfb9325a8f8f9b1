import logging

import pytest

from controller.claim_events import REPEAT_AFTER
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import claim_reason
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.examples import KEY, uid


@pytest.fixture
def recorded():
    return RecordedReasons()


@pytest.fixture
def publisher(recorded, metrics):
    return RecordingClaimEvents(recorded, metrics)


def reason(code=Code.RELEASE_WAITS, *, done=False, pods=3, of="train", cause="is gone"):
    return claim_reason(code, key=KEY, uid=uid(of), done=done, workload="jobs.batch/x", cause=cause, pods=pods)


def test_a_state_is_told_once_when_it_begins(publisher, recorded):
    for now in (0.0, 1.0, 2.0):
        publisher.publish(KEY, [reason()], now=now)
    assert recorded.codes == [Code.RELEASE_WAITS]


def test_numbers_that_change_do_not_make_it_new(publisher, recorded):
    for pods in (3, 2, 1):
        publisher.publish(KEY, [reason(pods=pods)], now=0.0)
    assert recorded.codes == [Code.RELEASE_WAITS]


def test_words_that_change_do(publisher, recorded):
    for cause in ("is complete", "is gone", "is gone"):
        publisher.publish(KEY, [reason(cause=cause)], now=0.0)
    assert recorded.codes == [Code.RELEASE_WAITS] * 2


def test_a_state_that_ended_and_began_again_is_told_again(publisher, recorded):
    for reasons in ([reason()], [], [reason()]):
        publisher.publish(KEY, reasons, now=0.0)
    assert recorded.codes == [Code.RELEASE_WAITS] * 2


def test_a_state_that_persists_is_told_again_before_its_event_expires(publisher, recorded):
    for now in (0.0, REPEAT_AFTER - 1.0, REPEAT_AFTER, REPEAT_AFTER + 1.0):
        publisher.publish(KEY, [reason()], now=now)
    assert recorded.codes == [Code.RELEASE_WAITS] * 2


def test_what_was_done_is_told_each_time(publisher, recorded):
    for now in (0.0, 1.0):
        publisher.publish(KEY, [reason(Code.WORKLOAD_RELEASED, done=True)], now=now)
    assert recorded.codes == [Code.WORKLOAD_RELEASED] * 2


def test_the_same_state_of_two_objects_is_two_states(publisher, recorded):
    publisher.publish(KEY, [reason(), reason(of="other")], now=0.0)
    publisher.publish(KEY, [reason(), reason(of="other")], now=1.0)
    assert recorded.codes == [Code.RELEASE_WAITS] * 2


def test_a_claim_made_anew_is_told_anew(publisher, recorded):
    publisher.publish(KEY, [reason()], now=0.0)
    publisher.forget(KEY)
    publisher.publish(KEY, [reason()], now=1.0)
    assert recorded.codes == [Code.RELEASE_WAITS] * 2


def test_the_same_words_go_to_the_log_and_are_counted(publisher, metrics, caplog):
    caplog.set_level(logging.INFO)
    publisher.publish(KEY, [reason()], now=0.0)
    (line,) = caplog.records
    assert (line.getMessage(), line.reason) == (reason().text, "ReleaseWaitsForPods")
    assert b'dra_reserve_reasons_total{reason="ReleaseWaitsForPods"} 1.0' in metrics.render()


def test_warnings_are_logged_as_such(publisher, caplog):
    warning = claim_reason(Code.CONSUMER_LIMIT, key=KEY, uid=uid("train"), pods=1, listed=256, finished=0)
    publisher.publish(KEY, [warning], now=0.0)
    assert [line.levelname for line in caplog.records] == ["WARNING"]


def test_what_is_told_besides_does_not_make_a_state_new(publisher, recorded):
    publisher.publish(KEY, [reason()], now=0.0)
    publisher.record(reason(done=True, of="other"))
    publisher.publish(KEY, [reason()], now=1.0)
    assert recorded.codes == [Code.RELEASE_WAITS] * 2
