"""A NameNode stub, and a standby that follows it."""

from __future__ import annotations

from tests.checkpointer.standby_support import daemon, stub, stub_config

__all__ = ["daemon", "stub", "stub_config"]
