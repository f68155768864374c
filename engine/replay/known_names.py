"""Names of users and groups that kernels can convert to ids, by their bytes in operations.

Kernels do not change the string table. The plain function applies an operation with an unknown name; afterwards,
`remember` adds the name.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from engine.replay.kernels.state import KNOWN_GROUP, KNOWN_USER
from image_format.array_allocator import ArrayAllocator
from image_format.key_tables import BytesTable
from image_format.string_table import MAX_SERIAL, StringKind, StringTable
from journal.primitives import encode_cesu8

_NAMES = 1 << 6
_MAX_NAME_BYTES = 0xFFFF
_KINDS: Final = (KNOWN_USER, StringKind.USER), (KNOWN_GROUP, StringKind.GROUP)
"""Kinds of known names, and the string table of each kind."""


class KnownNames:
    """Names of a string table, initially all its users and groups.

    Attributes:
        table: the names, separately for users and groups.
        serials: serials of names in the image, by number of the name in `table`.
    """

    def __init__(self, strings: StringTable, allocator: ArrayAllocator) -> None:
        self._strings = strings
        self.table = BytesTable(allocator)
        serials: dict[tuple[int, bytes], int] = {}
        for kind, _, text in strings.entries():
            key = None if kind == StringKind.XATTR else _name_key(text)
            if key is not None:
                for group, of in _KINDS:
                    serial = strings.find(text, of)
                    if 0 < serial <= MAX_SERIAL:
                        serials[group, key] = serial
        self.table.add_all([key for _, key in serials], [group for group, _ in serials])
        self.serials: npt.NDArray[np.uint64] = np.array(
            [*serials.values(), *([0] * (_NAMES - len(serials)))], np.uint64
        )

    def remember(self, user: str | None, group: str | None) -> None:
        """Add names that are in the string table."""
        for (of, kind), text in zip(_KINDS, (user or "", group or ""), strict=True):
            key, serial = _name_key(text), self._strings.find(text, kind)
            if key is None or not 0 < serial <= MAX_SERIAL or self.table.find(key, of) >= 0:
                continue
            number = self.table.add(key, of)
            if number == self.serials.size:
                self.serials = np.concatenate([self.serials, np.zeros_like(self.serials)])
            self.serials[number] = serial


def _name_key(text: str) -> bytes | None:
    """Return a name as operations encode it.

    Return None for a name that is too long for `BytesTable`, or whose encodings in operations and images differ. They
    differ for characters beyond the Basic Multilingual Plane, for example.
    """
    key = encode_cesu8(text)
    return key if key == text.encode("utf-8", "replace") and len(key) <= _MAX_NAME_BYTES else None
