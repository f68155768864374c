"""The namespace during replay: an index over the base image, and a delta with the changes made by edits."""

from __future__ import annotations

from engine.namespace.namespace import Namespace
from engine.namespace.path_resolver import ROOT_ROW

__all__ = ["ROOT_ROW", "Namespace"]
