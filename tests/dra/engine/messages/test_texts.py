"""Texts that are written for many, said of one."""

from dra.engine.messages.texts import singularize
from tests.violations import for_each_case


@for_each_case(
    [
        ("has 1 devices, used by 1 pods", "has 1 device, used by 1 pod"),
        ("has no devices, 1 pods wait for it", "has no devices, 1 pod waits for it"),
        ("but 1 unfinished pods reference the claim", "but 1 unfinished pod references the claim"),
        ("when its 1 pods end", "when its 1 pod ends"),
        ("the 1 pods that wait are gone", "the 1 pod that waits is gone"),
        ("waits for 1 pods that still use it", "waits for 1 pod that still uses it"),
        ("lists 1 pods that have ended", "lists 1 pod that has ended"),
        ("1 nodes (n1): cordoned", "1 node (n1): cordoned"),
        ("and 1 more claims", "and 1 more claim"),
        ("and 1 equal pods", "and 1 equal pod"),
        ("1 claims in use have no entry", "1 claim in use has no entry"),
        ("held by 1 batch pods that use 4m", "held by 1 batch pod that uses 4m"),
        ("only what 1 batch pods there hold", "only what 1 batch pod there holds"),
        ("11 pods use it", "11 pods use it"),
        ("1,001 pods use it", "1,001 pods use it"),
        ("0/1 nodes are available", "0/1 nodes are available"),
        ("1 of 1 pods would be placed", "1 of 1 pods would be placed"),
        ("node-1 pods", "node-1 pods"),
    ],
)
def test_what_is_said_of_one_agrees_with_it(many, said):
    assert singularize(many) == said
