"""Kernels that print delimited messages as a program of steps; `image_tools.dump.template` compiles the programs.

They print exactly what Hadoop prints. A record with a field that is unknown, repeated, of another wire type or missing
stops them (`UNUSUAL`). Python prints that record, or reports its damage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.kernels.jit import lean_kernel, measured_by, step
from image_format.kernels.wire import FIXED32, FIXED64, VARINT, WIRE_TYPE, copy_bytes, fixed64, octet, read_varint

WIDTH = 16
"""Fields of a message; the fields of nested messages follow, up to four levels in all."""
IS_TEXT = 0
"""Bit of no field, which `TELL` sets."""
SCRATCH = 4 * WIDTH

(LITERAL, NUMBER, NUMBER32, DATA, HEX, BASE64, WORD, DATE, COUNT, TOTAL, PATH, SEPARATE, TELL, INSIDE, EACH, STRING) = (
    range(16)
)
"""Kinds of a step. Print: a literal; a field as a signed number of 64 or 32 bits, escaped, as hexadecimal digits, as
base64, as a word, or as minutes in local time; the number of messages of a field; the sum of their field `SHAPE`; the
path; a comma, but not after a bracket. Test whether a field is UTF-8. Enter a message; print steps for each element.
Print a field escaped that must be UTF-8.
"""

OP, FIELD, PRESENT, ABSENT, START, STOP, SHAPE, BEHIND, ARGUMENTS = range(9)
"""Columns of steps: kind, field, required fields, excluded fields, bounds of its text in `literals`; row in `tags` of
its messages (for packed numbers their kind, negative) or the word's kind; and the step after its own steps. For a sum,
`START` is the number of the field.
"""

SINGLE, MESSAGES, PACKED_NUMBERS, PACKED32 = range(4)
"""How often a field may occur, and how its elements are written."""

DONE, FULL, UNUSUAL, UNKNOWN_WORD = range(4)
"""Why `write_records` returned: no record is left, `out` is full, Python must print the next record, or must look up a
word.
"""

LONGEST_ESCAPE = 6
_LONGEST_NUMBER = 20
_LONGEST_DATE = 16

_COMMA, _SLASH, _MINUS, _COLON, _SPACE, _ZERO, _EQUALS = 44, 47, 45, 58, 32, 48, 61
_OPENING = (91, 123)
_HIGH = 0x80
_DAY, _HOUR, _MINUTE = 86400, 3600, 60
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Program(NamedTuple):
    """A program that prints a message.

    Attributes:
        steps: rows of `ARGUMENTS` columns.
        literals: bytes of all texts.
        tags: by kind of message and field number; 0 for none. The first row is for the records.
        repeats: as `tags`, SINGLE and so on.
        required: fields that each kind of message must have.
        escapes: bounds of the text of each byte in `escaped`; empty for a byte that stays unchanged. U+FFFE and U+FFFF
            follow the bytes, and stay unchanged if their texts are empty.
        escaped: bytes of these texts.
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
        kinds: of each entry, -1 for a free one.
        keys: the number.
        spans: rows of (start, end) in `texts`.
        texts: bytes of all words.
    """

    kinds: Numbers
    keys: Numbers
    spans: Numbers
    texts: Bytes


class Paths(NamedTuple):
    """Paths of inodes, and local time; all empty for a program that prints neither.

    Attributes:
        parents: by slot, row of the inode's directory, -1 for none.
        in_tree: by row, whether the directory is in the tree below the root.
        bounds, paths: of the directories' paths.
        changes: seconds since 1970 at which the offset of local time changes, ascending; the first is 0, and the last
            is the end of known time.
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


@lean_kernel
def find_word(kinds, keys, kind, key):
    """Return the entry of a number, or the free entry where it belongs."""
    mask = keys.size - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    entry = np.int64(mixed >> np.uint64(40)) + kind & mask
    while kinds[entry] >= 0 and (kinds[entry] != kind or keys[entry] != key):
        entry = entry + 1 & mask
    return entry


@lean_kernel
def valid_utf8(buf, pos, end):
    """Return whether bytes are UTF-8 as Java and Python define it: shortest form, no surrogates, up to U+10FFFF."""
    while pos < end:
        first = np.int64(octet(buf, pos))
        pos += 1
        if first < _HIGH:
            continue
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
        elif 0xF0 <= first <= 0xF4:
            more = 3
        else:
            return False
        if more > end - pos:
            return False
        second = np.int64(octet(buf, pos))
        if (
            (first == 0xE0 and second < 0xA0)
            or (first == 0xED and second > 0x9F)
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second > 0x8F)
        ):
            return False
        for i in range(more):
            if octet(buf, pos + i) & 0xC0 != 0x80:
                return False
        pos += more
    return True


@step
def _decode(buf, pos, end, program, shape, base, values, ends):
    """Find the fields of a message; return a bit for each present field, -1 for a message that Python must read.

    `values` gets a number, or the start of bytes, whose end is in `ends`. Repeated messages start at the length of the
    first one.
    """
    for i in range(WIDTH):
        values[base + i] = 0
        ends[base + i] = 0
    present = np.int64(0)
    last = np.int64(0)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        number = tag >> 3
        if pos < 0 or number <= IS_TEXT or number >= WIDTH or program.tags[shape, number] != tag:
            return np.int64(-1)
        bit = np.int64(1) << number
        again = present & bit != 0
        repeats = program.repeats[shape, number]
        if again and (repeats != MESSAGES or last != tag):
            return np.int64(-1)
        wire = tag & WIRE_TYPE
        at = base + number
        if wire == VARINT:
            values[at], pos = read_varint(buf, pos, end)
            if pos < 0:
                return np.int64(-1)
        elif wire == FIXED64:
            if end - pos < 8:
                return np.int64(-1)
            values[at] = np.int64(fixed64(buf, pos))
            pos += 8
        elif wire == FIXED32:
            if end - pos < 4:
                return np.int64(-1)
            values[at] = _fixed32(buf, pos)
            pos += 4
        else:
            size, start = read_varint(buf, pos, end)
            if start < 0 or size < 0 or size > end - start:
                return np.int64(-1)
            if not again:
                values[at] = pos if repeats == MESSAGES else start
            pos = start + size
            ends[at] = pos
            if size == 0 and repeats > MESSAGES:
                bit = np.int64(0)
        present |= bit
        last = tag
    return present if present & program.required[shape] == program.required[shape] else np.int64(-1)


@step
def _fixed32(buf, pos):
    value = np.int64(0)
    for i in range(4):
        value |= np.int64(octet(buf, pos + i)) << (8 * i)
    return value


@step
def _number(out, at, value):
    """Print a signed number."""
    if value < 0:
        out[np.uint64(at)] = _MINUS
        at += 1
        rest = np.uint64(0) - np.uint64(value)
    else:
        rest = np.uint64(value)
    end = at + 1
    more = rest // np.uint64(10)
    while more:
        end += 1
        more //= np.uint64(10)
    pos = end
    while pos > at:
        pos -= 1
        more = rest // np.uint64(10)
        out[np.uint64(pos)] = _ZERO + (rest - more * np.uint64(10))
        rest = more
    return end


@step
def _two_digits(out, at, value):
    out[np.uint64(at)] = _ZERO + value // 10
    out[np.uint64(at + 1)] = _ZERO + value % 10
    return at + 2


@step
def _date(out, at, millis, paths):
    """Print `yyyy-MM-dd HH:mm` in local time; return -1 for a time with an unknown offset."""
    seconds = millis // 1000
    last = paths.changes.size - 1
    if last < 1 or seconds < 0 or seconds >= paths.changes[last]:
        return np.int64(-1)
    low = 0
    high = last - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if paths.changes[middle] <= seconds:
            low = middle
        else:
            high = middle - 1
    seconds += paths.offsets[low]
    days = seconds // _DAY
    rest = seconds - days * _DAY
    # the calendar in years from March on, of eras of 400 years
    days += 719468
    era = days // 146097
    day = days - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += era * 400
    month += 3
    if month > 12:
        month -= 12
        year += 1
    at = _two_digits(out, at, year // 100)
    at = _two_digits(out, at, year % 100)
    out[np.uint64(at)] = _MINUS
    at = _two_digits(out, at + 1, month)
    out[np.uint64(at)] = _MINUS
    at = _two_digits(out, at + 1, day + 1)
    out[np.uint64(at)] = _SPACE
    at = _two_digits(out, at + 1, rest // _HOUR)
    out[np.uint64(at)] = _COLON
    return _two_digits(out, at + 1, rest % _HOUR // _MINUTE)


@step
def _escaped(out, at, buf, pos, end, program):
    """Print bytes, escaped."""
    while pos < end:
        byte = octet(buf, pos)
        code = np.int64(byte)
        if byte == 0xEF and end - pos > 2 and octet(buf, pos + 1) == 0xBF and octet(buf, pos + 2) >= 0xBE:
            code = np.int64(256) + octet(buf, pos + 2) - 0xBE
        start = program.escapes[np.uint64(code)]
        size = program.escapes[np.uint64(code + 1)] - start
        if size == 0:
            out[np.uint64(at)] = byte
            at += 1
            pos += 1
        else:
            copy_bytes(out, at, program.escaped, start, size)
            at += size
            pos += 3 if code > 255 else 1
    return at


@step
def _hex(out, at, buf, pos, end):
    while pos < end:
        byte = octet(buf, pos)
        out[np.uint64(at)] = _HEX_DIGITS[byte >> 4]
        out[np.uint64(at + 1)] = _HEX_DIGITS[byte & 15]
        at += 2
        pos += 1
    return at


@step
def _base64(out, at, buf, pos, end):
    while pos < end:
        left = min(end - pos, 3)
        group = np.int64(0)
        for i in range(left):
            group |= np.int64(octet(buf, pos + i)) << (16 - 8 * i)
        for i in range(4):
            out[np.uint64(at + i)] = _ALPHABET[group >> (18 - 6 * i) & 63] if i <= left else _EQUALS
        at += 4
        pos += 3
    return at


@step
def _elements(buf, pos, end, program, shape, number, values, ends):
    """Return (number of repeated messages, sum of one of their fields, or 0); negative if Python must read."""
    count = np.int64(0)
    total = np.int64(0)
    while pos < end:
        size, start = read_varint(buf, pos, end)
        if number > 0:
            if _decode(buf, start, start + size, program, shape, 3 * WIDTH, values, ends) < 0:
                return np.int64(-1), total
            total += values[3 * WIDTH + number]
        count += 1
        pos = start + size
        if pos < end:
            _, pos = read_varint(buf, pos, end)
    return count, total


@step
def _leaf(row, buf, out, at, program, words, paths, slot, values, ends, asked):
    """Print a step without steps of its own; return the next position in `out`, or the negative reason for failing."""
    op = program.steps[row, OP]
    field = program.steps[row, FIELD]
    start = program.steps[row, START]
    room = out.size - at
    if op == LITERAL:
        size = program.steps[row, STOP] - start
        if size > room:
            return np.int64(-FULL)
        copy_bytes(out, at, program.literals, start, size)
        return at + size
    if op in (NUMBER, NUMBER32):
        if room < _LONGEST_NUMBER:
            return np.int64(-FULL)
        value = values[field]
        if op == NUMBER32:
            value = value << 32 >> 32
        return _number(out, at, value)
    if op in (DATA, HEX, BASE64, STRING):
        if LONGEST_ESCAPE * (ends[field] - values[field]) > room:
            return np.int64(-FULL)
        if op == STRING and not valid_utf8(buf, values[field], ends[field]):
            return np.int64(-UNUSUAL)
        if op in (DATA, STRING):
            return _escaped(out, at, buf, values[field], ends[field], program)
        if op == HEX:
            return _hex(out, at, buf, values[field], ends[field])
        return _base64(out, at, buf, values[field], ends[field])
    if op == WORD:
        kind = program.steps[row, SHAPE]
        entry = find_word(words.kinds, words.keys, kind, values[field])
        if words.kinds[entry] < 0:
            asked[0] = kind
            asked[1] = values[field]
            return np.int64(-UNKNOWN_WORD)
        start = words.spans[entry, 0]
        size = words.spans[entry, 1] - start
        if size > room:
            return np.int64(-FULL)
        copy_bytes(out, at, words.texts, start, size)
        return at + size
    if op == DATE:
        if room < _LONGEST_DATE:
            return np.int64(-FULL)
        reached = _date(out, at, values[field], paths)
        return reached if reached >= 0 else np.int64(-UNUSUAL)
    if op in (COUNT, TOTAL):
        if room < _LONGEST_NUMBER:
            return np.int64(-FULL)
        count, total = _elements(
            buf, values[field], ends[field], program, program.steps[row, SHAPE], start, values, ends
        )
        if count < 0:
            return np.int64(-UNUSUAL)
        return _number(out, at, count if op == COUNT else total)
    if op == PATH:
        return _path(buf, out, at, values[field], ends[field], program, paths, slot)
    # SEPARATE
    if room < 1:
        return np.int64(-FULL)
    if out[at - 1] != _OPENING[0] and out[at - 1] != _OPENING[1]:
        out[at] = _COMMA
        at += 1
    return at


@step
def _path(buf, out, at, name, name_end, program, paths, slot):
    """Print the path of the inode in a slot; a path that needs escapes is `UNUSUAL`."""
    size = np.int64(0)
    start = np.int64(0)
    if slot == paths.root:
        name_end = name
    else:
        row = paths.parents[slot]
        start = paths.bounds[row]
        size = paths.bounds[row + 1] - start
    if size + 1 + name_end - name > out.size - at:
        return np.int64(-FULL)
    begun = at
    copy_bytes(out, at, paths.paths, start, size)
    at += size
    out[at] = _SLASH
    copy_bytes(out, at + 1, buf, name, name_end - name)
    at += 1 + name_end - name
    if program.escaped.size:
        for i in range(begun, at):
            code = np.int64(out[np.uint64(i)])
            if program.escapes[code + 1] > program.escapes[code]:
                return np.int64(-UNUSUAL)
    return at


@step
def _next_element(buf, pos, end, program, row, values, ends):
    """Read the element at `pos`; return the position after it and the bits of its fields, -1 if Python must read it."""
    base = 3 * WIDTH
    shape = program.steps[row, SHAPE]
    if shape == -PACKED_NUMBERS:
        values[base], pos = read_varint(buf, pos, end)
        return pos, np.int64(0 if pos >= 0 else -1)
    if shape == -PACKED32:
        if end - pos < 4:
            return pos, np.int64(-1)
        values[base] = _fixed32(buf, pos)
        return pos + 4, np.int64(0)
    size, start = read_varint(buf, pos, end)
    present = _decode(buf, start, start + size, program, shape, base, values, ends)
    pos = start + size
    if pos < end:
        _, pos = read_varint(buf, pos, end)
    return pos, present


@step
def _each(row, buf, out, at, program, words, paths, slot, values, ends, asked):
    """Print the steps of a repeated field for each of its elements; as `_leaf`."""
    field = program.steps[row, FIELD]
    pos = values[field]
    end = ends[field]
    first = row + 1
    behind = program.steps[row, BEHIND]
    separator = program.steps[row, START]
    size = program.steps[row, STOP] - separator
    begun = False
    while pos < end:
        if begun:
            if size > out.size - at:
                return np.int64(-FULL)
            copy_bytes(out, at, program.literals, separator, size)
            at += size
        begun = True
        pos, present = _next_element(buf, pos, end, program, row, values, ends)
        if present < 0:
            return np.int64(-UNUSUAL)
        for inner in range(first, behind):
            if program.steps[inner, OP] == TELL:
                told = program.steps[inner, FIELD]
                if valid_utf8(buf, values[told], ends[told]):
                    present |= np.int64(1) << IS_TEXT
                continue
            wanted = program.steps[inner, PRESENT]
            if present & wanted != wanted or present & program.steps[inner, ABSENT]:
                continue
            at = _leaf(inner, buf, out, at, program, words, paths, slot, values, ends, asked)
            if at < 0:
                return at
    return at


@step
def _record(buf, pos, end, out, at, program, words, paths, slot, values, ends, asked, levels):
    """Print one message; as `_leaf`."""
    present = _decode(buf, pos, end, program, 0, 0, values, ends)
    if present < 0:
        return np.int64(-UNUSUAL)
    levels[0] = present
    row = 0
    while row < program.steps.shape[0]:
        field = program.steps[row, FIELD]
        level = field // WIDTH
        op = program.steps[row, OP]
        fields = levels[level]
        wanted = program.steps[row, PRESENT]
        if fields & wanted != wanted or fields & program.steps[row, ABSENT]:
            row = program.steps[row, BEHIND]
        elif op == INSIDE:
            inside = _decode(
                buf, values[field], ends[field], program, program.steps[row, SHAPE], (level + 1) * WIDTH, values, ends
            )
            if inside < 0:
                return np.int64(-UNUSUAL)
            levels[level + 1] = inside
            row += 1
        elif op == TELL:
            if valid_utf8(buf, values[field], ends[field]):
                levels[level] |= np.int64(1) << IS_TEXT
            row += 1
        elif op == EACH:
            at = _each(row, buf, out, at, program, words, paths, slot, values, ends, asked)
            if at < 0:
                return at
            row = program.steps[row, BEHIND]
        else:
            at = _leaf(row, buf, out, at, program, words, paths, slot, values, ends, asked)
            if at < 0:
                return at
            row += 1
    return at


@measured_by("buf", "paths")
@lean_kernel
def write_records(buf, pos, out, at, slot, behind, program, words, paths, values, ends, asked, levels):
    """Print the delimited messages of a section from `pos`, each completely.

    Args:
        out, at: result, and the position in it.
        slot, behind: number of the record at `pos`, and of the first record not to print.
        values, ends, levels: scratch, `SCRATCH` numbers, and a number for each level.
        asked: result of `UNKNOWN_WORD`: kind and number of the word.

    Returns:
        (position of the next record, position in `out`, number of that record, why it stopped).
    """
    while slot < behind and pos < buf.size:
        size, start = read_varint(buf, pos, buf.size)
        if start < 0 or size < 0 or size > buf.size - start:
            return pos, at, slot, UNUSUAL
        if paths.parents.size and slot != paths.root:
            row = paths.parents[slot]
            if row < 0 or not paths.in_tree[row]:
                pos = start + size
                slot += 1
                continue
        reached = _record(buf, start, start + size, out, at, program, words, paths, slot, values, ends, asked, levels)
        if reached < 0:
            return pos, at, slot, -reached
        at = reached
        pos = start + size
        slot += 1
    return pos, at, slot, DONE
