"""An fsimage as text: XML and delimited rows as in Hadoop's OfflineImageViewer, JSON lines, and statistics."""

from __future__ import annotations
