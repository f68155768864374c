"""Constants of HDFS: reserved inode ids (INodeId)."""

from __future__ import annotations

ROOT_INODE_ID = 16385
"""Id of the root; smaller ids are reserved (INodeId.ROOT_INODE_ID)."""
