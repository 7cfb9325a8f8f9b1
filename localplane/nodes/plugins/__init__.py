"""DRA plugins of the emulated nodes, called over their real sockets: the kubelet's side of DRA.

::

    registry folder ──every second──► plugin_watcher ──GetInfo──► dra_plugin_manager ──► plugin_preparer: the `Preparer`
                                                                    │             │
                                            no connection for 30 s: slice_wiper   health_info

====================  ==================================================================================
module                what it knows
====================  ==================================================================================
`node_folders`        the paths of a node's sockets and CDI files, and the maximum length of a path
`plugin_watcher`      the sockets in the registry folder of a node, and the registration of plugins
`dra_plugin`          one connection to one instance of a plugin
`dra_plugin_manager`  the instances of each driver on a node, which of them is called, when slices are wiped
`slice_wiper`         the removal of ResourceSlices from the API server
`health_info`         the health of devices as their plugins report it
`responses`           the responses that a plugin may give: pure
`checkpoints`         the claims that a kubelet remembers across restarts
`plugin_preparer`     the drivers of all nodes behind `localplane.nodes.drivers.Preparer`
====================  ==================================================================================

gRPC runs in its own threads, which breaks virtual time, and its import is slow. Only code that composes a plane with
plugins imports `plugin_preparer`, `dra_plugin_manager`, `plugin_watcher`, `dra_plugin`, `health_info` or `responses`.
"""
