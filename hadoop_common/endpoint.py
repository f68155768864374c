"""Addresses as text."""

from __future__ import annotations

__all__ = ["host_port"]


def host_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
