from dra.engine.steps import finish


def counting(steps):
    for _ in range(steps):
        yield
    return steps


def test_the_result_follows_the_last_step():
    assert [finish(counting(steps)) for steps in (0, 3)] == [0, 3]
