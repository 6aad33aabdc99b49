"""The descriptor pool of the package's stubs.

Two copies of a contract in one process, of different versions or generated under different paths, cannot share a pool.
With a pool of its own, this package works beside any other client of `sessiond.v1`. In exchange, its messages and the
well-known types inside them are classes of their own: fill them in place, and never assign instances from elsewhere.
"""

from google.protobuf import duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

PRIVATE = DescriptorPool()
for _module in (duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2):
    PRIVATE.AddSerializedFile(_module.DESCRIPTOR.serialized_pb)
