import asyncio

from controller.step_runner import run_steps


async def test_other_tasks_have_their_turn_after_each_step():
    done = []

    def steps():
        for number in range(3):
            done.append(number)
            yield
        return "result"

    async def other():
        for _ in range(3):
            done.append("other")
            await asyncio.sleep(0)

    result, _ = await asyncio.gather(run_steps(steps()), other())
    assert result == "result"
    assert done == [0, "other", 1, "other", 2, "other"]
