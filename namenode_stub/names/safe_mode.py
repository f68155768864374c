"""Safe mode: the namespace is read and saved, but does not change."""

from __future__ import annotations

from namenode_stub.refusals import InSafeModeError

_TIP = 'It was turned on manually. Use "hdfs dfsadmin -safemode leave" to turn safe mode off.'


class SafeMode:
    """A switch that an administrator turns; whoever turns or asks holds the namespace's lock."""

    def __init__(self) -> None:
        self.on = False

    def check(self, what: str) -> None:
        """Raises InSafeModeError where `what`, such as "create file /a", has to wait."""
        if self.on:
            raise InSafeModeError(f"Cannot {what}. Name node is in safe mode.\n{_TIP}")
