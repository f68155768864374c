"""Replay: what each edit does to the namespace, one function per opcode.

`table` says which function and which kernel an operation has. `registry` applies one operation plainly. `compiled`
runs the kernels over a segment. `replayer` puts the two together and keeps the order of txids.
"""

from __future__ import annotations

from engine.replay.registry import apply
from engine.replay.replayer import compiled_replay, replay

__all__ = ["apply", "compiled_replay", "replay"]
