"""Format of the programs that `image_tools.dump.template` compiles and `image_tools.dump.kernels.text` executes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

WIDTH = 16
"""Maximum number of fields of a message; the fields of nested messages follow, up to four levels in all."""
IS_TEXT = 0
"""Bit that no field uses; `TELL` sets the bit if a field is UTF-8."""
SCRATCH = 4 * WIDTH

(LITERAL, NUMBER, NUMBER32, DATA, HEX, BASE64, WORD, DATE, COUNT, TOTAL, PATH, SEPARATE, TELL, INSIDE, EACH, STRING) = (
    range(16)
)
"""Kinds of a step:

- `LITERAL` prints a string of the program;
- `NUMBER` and `NUMBER32` print a field as a signed number of 64 or 32 bits;
- `DATA`, `HEX` and `BASE64` print the bytes of a field escaped, as hexadecimal digits, or as base64;
- `WORD` prints the word for a number, and `DATE` prints milliseconds as minutes in local time;
- `COUNT` prints the number of messages of a field, and `TOTAL` prints the sum of their field `SHAPE`;
- `PATH` prints the path, and `SEPARATE` prints a comma unless a bracket precedes;
- `TELL` tests whether a field is UTF-8;
- `INSIDE` enters a message, and `EACH` executes the nested steps for each element;
- `STRING` prints, escaped, a field that must be UTF-8.
"""

OP, FIELD, PRESENT, ABSENT, START, STOP, SHAPE, BEHIND, ARGUMENTS = range(9)
"""Columns of steps: kind, field, required fields, excluded fields, bounds of the text in `literals`; row of the
messages in `tags` (for packed numbers their kind, negated) or kind of the word; and the step after the nested steps.
For a sum, `START` is the number of the field.
"""

SINGLE, MESSAGES, PACKED_NUMBERS, PACKED32 = range(4)
"""Allowed number of occurrences of a field, and the encoding of its elements."""

DONE, FULL, UNUSUAL, UNKNOWN_WORD = range(4)
"""Reasons for which `write_records` returned: no record is left, `out` is full, Python must print the next record, or
Python must look up a word.
"""

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Program(NamedTuple):
    """The steps with which a kernel prints a protobuf message.

    Attributes:
        steps: rows of `ARGUMENTS` columns.
        literals: bytes of all strings.
        tags: tags by kind of message and field number; 0 for an unused number. The first row is for the records.
        repeats: `SINGLE` or another kind of repetition, in the order of `tags`.
        required: fields that each kind of message must contain.
        escapes: bounds of the replacement of each byte in `escaped`; empty for a byte that stays unchanged. U+FFFE and
            U+FFFF follow the bytes, and stay unchanged if their replacements are empty.
        escaped: bytes of these replacements.
    """

    steps: Numbers
    literals: Bytes
    tags: Numbers
    repeats: Numbers
    required: Numbers
    escapes: Numbers
    escaped: Bytes


class Words(NamedTuple):
    """Words for numbers, a hash table with open addressing.

    Attributes:
        kinds: kind of each entry, -1 for a free entry.
        keys: number of each entry.
        spans: rows of (start, end) in `texts`.
        texts: bytes of all words.
    """

    kinds: Numbers
    keys: Numbers
    spans: Numbers
    texts: Bytes


class Paths(NamedTuple):
    """Paths of inodes, and local time; all arrays are empty for a program that prints neither.

    Attributes:
        parents: row of an inode's directory by slot, or -1.
        in_tree: whether a directory is in the tree below the root, by row.
        bounds, paths: bounds and bytes of the directories' paths.
        changes: seconds since 1970 at which the offset of local time changes, ascending; the first is 0, and the last
            is the end of the known range.
        offsets: offset of local time in seconds, from each change on.
        root: slot of the root.
    """

    parents: npt.NDArray[np.signedinteger]
    in_tree: npt.NDArray[np.bool_]
    bounds: Numbers
    paths: Bytes
    changes: Numbers
    offsets: Numbers
    root: int
