"""Replay: what each edit does to the namespace, one function per opcode."""

from __future__ import annotations

from engine.replay.registry import apply
from engine.replay.replayer import compiled_replay, replay

__all__ = ["apply", "compiled_replay", "replay"]
