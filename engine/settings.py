"""What a merge is told beside its input."""

from __future__ import annotations

from dataclasses import dataclass

from engine.replay_rules import ReplayRules
from image_format.memory_limit import MemoryLimit
from image_format.sub_sections import SubSectionRule


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How edits are replayed, and how new images are written.

    Attributes:
        codec: Hadoop's class name for new images, "" for none, None for the base image's; see `codec_to_write`.
        layout_version: of new images, whose rules the replay follows; None for the base image's.
        allow_unknown_layout: take images newer than every known layout, copying what is not understood.
        sub_sections: see `write_image`.
        rules: the cluster's own settings, as far as replay goes by them.
        max_op_size: the largest operation in bytes that is replayed, which is NameNodes' default.
        memory: what the large arrays of index and delta may take in this process.
    """

    codec: str | None = None
    layout_version: int | None = None
    allow_unknown_layout: bool = False
    sub_sections: SubSectionRule | None = None
    rules: ReplayRules = ReplayRules()
    max_op_size: int = 52428800
    memory: MemoryLimit = MemoryLimit()
