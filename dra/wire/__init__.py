"""What the kubelet and its plugins say to each other: gRPC over unix sockets.

============  ===============================================  =========================  ==========================
module        what it is about                                 served by                  asked by
============  ===============================================  =========================  ==========================
registration  that there is a plugin, and where                plugin (own socket)        kubelet
plugin        claims: prepared for a pod, and given back       plugin                     kubelet
devicehealth  the health of devices, as it changes             plugin                     kubelet
serving       whether the gRPC server itself is well           plugin                     probes
============  ===============================================  =========================  ==========================

Each of them has a protocol (what a server has to be able to do), ``add_to_server`` and a typed client, both for
`grpc.aio`, and names the messages that go with it: import those from there, too. Messages are generated from the
``.proto`` files in `dra.wire.messages` (``make wire``), services are written by hand, since grpcio's generator knows no
types.

The packages, numbers and names are the kubelet's, the texts are ours. Where the kubelet has two versions of a service
that differ in nothing, or in one field that the older one does not know, both are served with the messages of the newer
one: one servicer, one piece of code, and a field that a client does not know is skipped by it (protobuf's own rule).
"""
