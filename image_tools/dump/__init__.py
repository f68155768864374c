"""An fsimage as text: XML and delimited rows like Hadoop's OfflineImageViewer, JSON lines, statistics."""

from __future__ import annotations
