"""Ids of inodes that HDFS gives away itself (INodeId)."""

from __future__ import annotations

ROOT_INODE_ID = 16385
"""Ids below it are reserved (INodeId.ROOT_INODE_ID)."""
