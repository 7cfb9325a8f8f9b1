from bench.life import Life


async def test_the_bench_of_the_whole_plane_comes_to_its_end():
    found = await Life(20).measure()
    assert {"created, s", "bound, s", "running, s", "ended, s", "counted, s", "whole life, s"} <= found.keys()
