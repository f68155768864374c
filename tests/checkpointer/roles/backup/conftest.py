"""A NameNode that streams its edits, and a backup node that follows it."""

from __future__ import annotations

from tests.checkpointer.backup_support import daemon, namenode

__all__ = ["daemon", "namenode"]
