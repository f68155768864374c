"""Replay: the effect of each edit on the namespace, with one function per opcode.

`table` lists the function and the kernel of each operation. `registry` applies one operation plainly. `compiled` runs
the kernels over a segment. `replayer` combines the two and checks the order of txids.
"""

from __future__ import annotations

from engine.replay.registry import apply
from engine.replay.replayer import compiled_replay, replay

__all__ = ["apply", "compiled_replay", "replay"]
