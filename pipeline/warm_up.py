"""Warm-up: small tables and counts that compile the kernels of reports and of Spark's tables."""

from __future__ import annotations

import collections
import importlib.util
import tempfile
from datetime import UTC, datetime
from pathlib import Path


def compile_kernels() -> str:
    """Compile the kernels inside `compiled_kernels`; return "", because this function has nothing to report.

    Without PyArrow, no kernel is needed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        return ""
    import numpy as np

    from engine.warm_up import small_image
    from hadoop_common.names import image_name
    from image_format.proto import fsimage_pb2 as pb
    from image_format.varint import encode_delimited
    from pipeline.host_image import HostImage
    from pipeline.reports.counts.namespace import Rules, merge_counts
    from pipeline.reports.tasks import count_inodes
    from pipeline.sources.image_tables.snapshots import diff_cuts
    from pipeline.sources.readers import READERS
    from pipeline.sources.table_reader import TablePart

    with tempfile.TemporaryDirectory(prefix="checkpointer-") as name:
        path = Path(name) / image_name(1)
        path.write_bytes(small_image())
        image = HostImage.open(path, Path(name))
        for reader in READERS.values():
            for part in reader.parts(image.image, 2):
                collections.deque(reader.read(image, part, reader.table.names), maxlen=0)
        merge_counts(count_inodes(image, TablePart(0, 1), Rules(datetime.now(UTC), directory_sizes=True)))
    # the small image has no snapshots
    diff_cuts(np.frombuffer(encode_delimited(pb.DiffEntry(type=pb.DiffEntry.FILEDIFF)), np.uint8), 1, 1)
    return ""
