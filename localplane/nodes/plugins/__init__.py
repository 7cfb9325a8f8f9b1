"""DRA plugins of the emulated nodes, asked over their real sockets: what a kubelet does for them.

::

    registry folder ──every second──► registry ──GetInfo──► node: endpoints by driver ──► plugins: the `Preparer`
                                                              │            │
                                            lost for 30 s: wiping      health streams

=============  ==========================================================================================
module         what it knows
=============  ==========================================================================================
`folders`      where the sockets and CDI files of a node are, and how long a path may be
`registry`     which sockets are in the folder of a node, and how a plugin is registered
`endpoint`     one connection to one instance of a plugin
`node`         which instances of which drivers a node has, which one is asked; when slices are wiped
`answers`      what a plugin may answer: pure
`checkpoints`  what a kubelet remembers when it starts again
`preparer`     the drivers of all nodes behind `localplane.nodes.drivers.Preparer`
=============  ==========================================================================================

gRPC lives in threads of its own and breaks virtual time, and importing it takes a while: only who composes a plane with
plugins imports `preparer`, `node`, `registry`, `endpoint` or `answers`.
"""
