"""Copies segments of a journal on BookKeeper to files that Spark can send to executors.

Only the driver imports this module. It is separate from `pipeline.staging`, because every Python process of Spark
imports that module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from hadoop_common.addresses import uri_scheme
from hadoop_common.configuration import Configuration
from hadoop_common.durable import written_atomically
from hadoop_common.names import segment_name
from image_format.layout import NEWEST_LAYOUT
from journal.binary_codec import encode_op
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions
from journal.bookkeeper.settings import READER_KEYS, SCHEME, BookKeeperSettings
from journal.journal_copy import CopiedSegment, CopyRange, select_range
from journal.open_journal import open_journal
from journal.segment_format import encode_header

KEYS = tuple(key.name for key in READER_KEYS)
"""Keys of Hadoop's configuration for reading a journal."""


def is_journal(uri: str) -> bool:
    return uri_scheme(uri) == SCHEME


def copy_segments(uri: str, folder: Path, values: Mapping[str, str], *, in_progress: bool) -> list[Path]:
    """Copy the segments of a journal into `folder`; copy an open segment up to its last confirmed transaction.

    Args:
        values: values of the configured keys in `KEYS`.
    """
    settings = BookKeeperSettings.from_configuration(Configuration.from_mapping(values, os.environ))
    with closing(open_journal(uri, bookkeeper=BookKeeperOptions(settings))) as journal:
        wanted = CopyRange(in_progress=in_progress)
        parts = select_range(journal, wanted, layout_version=None, default_layout=NEWEST_LAYOUT)
        return [_written(part, folder) for part in parts]


def _written(part: CopiedSegment, folder: Path) -> Path:
    """Return the segment as a finalized file; write the file unless an earlier read has written it."""
    path = folder / segment_name(part.first, part.last)
    if not path.exists():
        with written_atomically(path) as out:
            out.write(encode_header(part.layout_version))
            for op in part.ops():
                out.write(encode_op(op, part.layout_version))
    return path
