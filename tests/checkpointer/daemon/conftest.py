"""A service of a role that a test controls, and its clock."""

from __future__ import annotations

from tests.checkpointer.service_support import clock, role, service

__all__ = ["clock", "role", "service"]
