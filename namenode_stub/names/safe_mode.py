"""Safe mode: the namespace can be read and saved, but not changed."""

from __future__ import annotations

from namenode_stub.refusals import InSafeModeError

_TIP = 'It was turned on manually. Use "hdfs dfsadmin -safemode leave" to turn safe mode off.'


class SafeMode:
    """A switch for administrators; callers hold the namespace's lock."""

    def __init__(self) -> None:
        self.on = False

    def check(self, what: str) -> None:
        """Raise InSafeModeError if safe mode forbids `what`, such as "create file /a"."""
        if self.on:
            raise InSafeModeError(f"Cannot {what}. Name node is in safe mode.\n{_TIP}")
