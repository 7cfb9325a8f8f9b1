"""The gRPC services between the kubelet and its plugins, over unix sockets.

============  ===============================================  =========================  ==========================
module        subject                                          server                     client
============  ===============================================  =========================  ==========================
registration  the existence and the endpoint of a plugin       plugin (own socket)        kubelet
plugin        claims: prepared for a pod, and unprepared       plugin                     kubelet
devicehealth  the health of devices, as it changes             plugin                     kubelet
grpc_health   the health of the gRPC server itself             plugin                     probes
============  ===============================================  =========================  ==========================

Each module has a protocol (what a server has to implement), ``add_to_server`` and a typed client, both for `grpc.aio`,
and exports the messages of its service: import messages from the module, too. Messages are generated from the
``.proto`` files in `dra.wire.messages` (``make wire``); services are written by hand, since grpcio's generator writes
no types.

Packages, numbers and names are the kubelet's, the comments are this project's. Where the kubelet has two versions of a
service that are equal, or differ in one field that the older version does not know, both are served with the messages
of the newer version: one servicer, one piece of code; a client skips a field that it does not know (protobuf's own
rule).
"""
