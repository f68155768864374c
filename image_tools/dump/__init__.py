"""An fsimage as text: XML as Hadoop's OfflineImageViewer prints it, delimited rows, JSON lines."""

from __future__ import annotations
