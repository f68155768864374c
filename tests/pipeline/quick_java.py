"""How the tests start Spark's JVMs: the jobs are small, and most of their time is the compiler's."""

from __future__ import annotations

QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def quick_java() -> dict[str, str]:
    """What the environment of a process needs so that the JVMs it starts are such."""
    return {"JAVA_TOOL_OPTIONS": " ".join(QUICK_START)}
