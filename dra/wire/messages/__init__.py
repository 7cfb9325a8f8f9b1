"""The messages: ``.proto`` files, and the ``*_pb2`` modules that ``make wire`` writes from them.

They live in a pool of their own. protobuf allows a name only once in a pool, and here are names such as
``v1.DeviceHealth`` and ``grpc.health.v1.HealthCheckRequest``, which any other package in the same process may
declare in the default pool.
"""

from typing import Final

from google.protobuf.descriptor_pool import DescriptorPool

POOL: Final = DescriptorPool()
