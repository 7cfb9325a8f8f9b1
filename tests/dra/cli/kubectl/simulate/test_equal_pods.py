"""Equal pods share a row of the table."""

import pytest

from dra.cli.kubectl.resource_table import ResourceTable, TableRow
from dra.cli.kubectl.simulate.equal_pods import base_name, sum_up_rows


def row(pod, *, node="n1", devices="gpu/n1/0", why="", claims="c", kind="pod"):
    return TableRow(name=f"{kind}/{pod}", cells=("ml", pod, node, devices, why), wide=(claims,), content=dict)


def summed(*rows):
    table = sum_up_rows(ResourceTable(header=("NAMESPACE", "POD", "NODE", "DEVICES", "WHY"), rows=rows))
    return [(each.cells[1], each.cells[3], each.wide[0]) for each in table.rows]


@pytest.mark.parametrize(
    ("pod", "base"),
    [
        ("train-12", "train"),
        ("web-7d4b9-x2k5q", "web-7d4b9"),
        ("train-6rd4p", "train"),
        ("one", "one"),
        ("train-a", "train-a"),
    ],
)
def test_the_name_that_equal_pods_have_in_common(pod, base):
    assert base_name(pod) == base


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        pytest.param(
            [row(f"train-{n}", devices=f"gpu/n1/{n}", claims=f"c-{n}") for n in range(5)],
            [("train-0 and 4 more", "5 devices", "5 claims")],
            id="devices-of-their-own-are-counted",
        ),
        pytest.param(
            [row(f"train-{n}") for n in range(5)],
            [("train-0 and 4 more", "gpu/n1/0", "c")],
            id="a-shared-device",
        ),
        pytest.param(
            [row(f"train-{n}", devices="<none>", why="no node", claims="<none>") for n in range(1001)],
            [("train-0 and 1,000 more", "<none>", "<none>")],
            id="without-devices",
        ),
        pytest.param(
            [row(f"train-{n}", node=f"n{n % 2}") for n in range(4)],
            [(f"train-{n}", "gpu/n1/0", "c") for n in (0, 2, 1, 3)],
            id="few-have-rows-of-their-own",
        ),
        pytest.param(
            [row(f"train-{n}", why=f"because {n}") for n in range(4)],
            [(f"train-{n}", "gpu/n1/0", "c") for n in range(4)],
            id="other-reasons",
        ),
        pytest.param(
            [row(f"r-{n}", kind="reservation") for n in range(4)],
            [(f"r-{n}", "gpu/n1/0", "c") for n in range(4)],
            id="reservations-are-no-pods",
        ),
    ],
)
def test_equal_pods_share_a_row(rows, shown):
    assert summed(*rows) == shown
