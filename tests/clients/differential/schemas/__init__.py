"""Messages that kafka-python has no schemas for: those of the newer consumer groups (KIP-848)."""

import sys

from kafka.protocol.api_message import ApiMessage

HERE = sys.modules[__name__]


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=HERE):
    pass


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=HERE):
    pass


class ConsumerGroupDescribeRequest(ApiMessage, load_json=HERE):
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=HERE):
    pass
