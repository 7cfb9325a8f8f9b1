"""The messages: ``.proto`` files, and the ``*_pb2`` modules that ``make wire`` writes from them.

The messages have a descriptor pool of their own. protobuf allows a name only once in a pool, and other packages in the
same process may declare ``v1.DeviceHealth`` or ``grpc.health.v1.HealthCheckRequest`` in the default pool.
"""

from typing import Final

from google.protobuf.descriptor_pool import DescriptorPool

POOL: Final = DescriptorPool()
