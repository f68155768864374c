"""Tables and counts of recorded images in a process that only did the work of `checkpointer compile`.

Run as a program in a separate folder, the module prints a JSON object. For each case, the object contains the kernels
that were not yet compiled, with the types of their arguments.
"""

from __future__ import annotations

import collections
import json
from datetime import UTC, datetime
from pathlib import Path

from image_format.compiling.mode import compiled_kernels
from pipeline.host_image import HostImage
from pipeline.reports.counts.namespace import Rules, merge_counts
from pipeline.reports.tasks import count_inodes
from pipeline.sources.readers import READERS
from pipeline.warm_up import compile_kernels
from tests.checkpointer.first_checkpoints import compiled
from tests.recorded_cases import RECORDED, Case

CASES = "hadoop-2.7.3/segments", "hadoop-3.4.1/compress-default", "hadoop-3.4.1/erasure-coding-snapshots"


def read(case: Case, folder: Path) -> None:
    image = HostImage.open(case.image("after"), folder)
    for reader in READERS.values():
        for part in reader.parts(image.image, 2):
            collections.deque(reader.read(image, part, reader.table.names), maxlen=0)
            if reader.table.name == "inodes":
                merge_counts(count_inodes(image, part, Rules(datetime.now(UTC), directory_sizes=True)))


def main() -> None:
    with compiled_kernels():
        compile_kernels()
        known, further = compiled(), {}
        for name in CASES:
            folder = Path(name.replace("/", "-"))
            folder.mkdir()
            read(Case(RECORDED / name), folder)
            further[name] = sorted(compiled() - known)
    print(json.dumps(further))


if __name__ == "__main__":
    main()
