"""Replay: the effect of each edit on the namespace, with one function per opcode.

`table` lists the function and the kernel of each operation. `registry` applies one operation with its plain function.
`compiled` runs the kernels over a segment. `replayer` combines both and checks the order of txids.
"""

from __future__ import annotations

from engine.replay.registry import apply
from engine.replay.replayer import compiled_replay, replay

__all__ = ["apply", "compiled_replay", "replay"]
