"""The column that a read of several images adds to every table."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column

IMAGE_COLUMN = Column(
    "image", pa.string(), "Path of the row's image, or its name if Spark fetched the image.", "", nullable=False
)
