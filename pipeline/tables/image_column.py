"""The column that a read of several images adds to each table."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column

IMAGE_COLUMN = Column(
    "image", pa.string(), "Path of the image that the row is from; its name where Spark fetched it.", "", nullable=False
)
