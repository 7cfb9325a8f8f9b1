"""ResourceSlices that count."""

import pytest

from dra.model.meta import ObjectMeta
from dra.model.slices import ResourcePool, ResourceSlice, ResourceSliceSpec, newest_of_pools


def published(name, pool, generation, *, driver="gpu.example.com"):
    """Return a slice of a pool."""
    spec = ResourceSliceSpec(driver=driver, pool=ResourcePool(name=pool, generation=generation))
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


@pytest.mark.parametrize(
    ("slices", "names"),
    [
        pytest.param([], [], id="none"),
        pytest.param([published("a", "n1", 1), published("b", "n1", 1)], ["a", "b"], id="one-generation"),
        pytest.param([published("a", "n1", 2), published("b", "n1", 1)], ["a"], id="an-older-one-is-left"),
        pytest.param([published("a", "n1", 1), published("b", "n2", 5)], ["a", "b"], id="each-pool-counts-for-itself"),
        pytest.param(
            [published("a", "n1", 1), published("b", "n1", 5, driver="cpu.example.com")],
            ["a", "b"],
            id="pools-of-two-drivers-have-one-name",
        ),
        pytest.param([published("a", "n1", -1)], ["a"], id="whatever-the-number"),
    ],
)
def test_the_highest_generation_of_each_pool_counts(slices, names):
    assert [part.metadata.name for part in newest_of_pools(slices)] == names
