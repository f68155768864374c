"""Protobuf messages of the fsimage; `fsimage_pb2` is compiled from `fsimage.proto` by the build."""

from __future__ import annotations
