"""A Hadoop for the tests that need one."""

from __future__ import annotations

from tests.interop.conftest import hadoop

__all__ = ["hadoop"]
