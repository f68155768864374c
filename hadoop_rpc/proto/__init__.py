"""Protobuf messages of Hadoop RPC; the `*_pb2` modules are compiled from the `.proto` files by the build."""

from __future__ import annotations
