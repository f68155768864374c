"""Streaming conversion of an fsimage to another layout version or compression codec."""

from __future__ import annotations

from image_tools.convert.image import ConversionPlan, convert_image, plan_conversion
from image_tools.convert.spooled import at_layout, convert_to_spool, write_at_layout

__all__ = ["ConversionPlan", "at_layout", "convert_image", "convert_to_spool", "plan_conversion", "write_at_layout"]
