"""The diagnosis of claims, pods and devices for people, made by asking the rules that the controller uses.

A `Snapshot` holds the objects of an API server at one moment; a `ClusterState` puts them into the `ClaimCache` that the
controller uses. `find_holds` finds what keeps an allocation by removing causes, one after the other, and asking the
rules what they would do then. `claims`, `pods` and `devices` turn that into facts: enums and numbers, no sentences. No
decision is implemented a second time here.

A snapshot lacks what only a controller that has watched for a while knows (when a pod was listed, what came back).
Where that could matter, the facts say so (`AllocationHold.TIME`).
"""
