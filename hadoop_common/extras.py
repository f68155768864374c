"""Optional libraries of the product, which the extras of its wheel install."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return the hint for a missing library of `extra`; the Debian package contains a fixed set of libraries."""
    return (
        f"Install the extra: pip install 'hdfs-checkpointer[{extra}]'. "
        "If this is the Debian package, install the wheel with this extra instead of the package."
    )
