"""Kernels that print delimited messages as a program of steps; `image_tools.dump.template` compiles the programs.

Their output is identical to the output of Hadoop. They stop (`UNUSUAL`) at a record with a field that is unknown,
repeated, of another wire type or missing. Python then prints this record, or reports its damage.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import lean_kernel, measured_by, step
from image_format.kernels.text import valid_utf8
from image_format.kernels.wire import FIXED32, FIXED64, VARINT, WIRE_TYPE, copy_bytes, fixed64, octet, read_varint
from image_tools.dump.kernels.program import (
    ABSENT,
    BASE64,
    BEHIND,
    COUNT,
    DATA,
    DATE,
    DONE,
    EACH,
    FIELD,
    FULL,
    HEX,
    INSIDE,
    IS_TEXT,
    LITERAL,
    MESSAGES,
    NUMBER,
    NUMBER32,
    OP,
    PACKED32,
    PACKED_NUMBERS,
    PATH,
    PRESENT,
    SHAPE,
    START,
    STOP,
    STRING,
    TELL,
    TOTAL,
    UNKNOWN_WORD,
    UNUSUAL,
    WIDTH,
    WORD,
)
from image_tools.dump.kernels.values import (
    MAX_DATE,
    MAX_ESCAPE,
    MAX_NUMBER,
    put_base64,
    put_date,
    put_escaped,
    put_hex,
    put_number,
)

_COMMA, _SLASH = 44, 47
_OPENING = (91, 123)


@lean_kernel
def find_word(kinds, keys, kind, key):
    """Return the entry of a number, or the free entry where the number belongs."""
    mask = keys.size - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    entry = np.int64(mixed >> np.uint64(40)) + kind & mask
    while kinds[entry] >= 0 and (kinds[entry] != kind or keys[entry] != key):
        entry = entry + 1 & mask
    return entry


@step
def _decode(buf, pos, end, program, shape, base, values, ends):
    """Find the fields of a message; return a bit for each present field, -1 for a message that Python must read.

    `values` receives numbers and the starts of bytes, and `ends` receives the ends of bytes. The start of repeated
    messages is the position of the first length.
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
def _elements(buf, pos, end, program, shape, number, values, ends):
    """Return (number of repeated messages, sum of one of their fields, or 0); a negative number means `UNUSUAL`."""
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
def _word(row, out, at, program, words, number, asked):
    """Print the word for a number; arguments and result as in `_leaf`."""
    kind = program.steps[row, SHAPE]
    entry = find_word(words.kinds, words.keys, kind, number)
    if words.kinds[entry] < 0:
        asked[0] = kind
        asked[1] = number
        return np.int64(-UNKNOWN_WORD)
    start = words.spans[entry, 0]
    return _text(out, at, words.texts, start, words.spans[entry, 1] - start)


@step
def _text(out, at, buf, start, size):
    """Print bytes unchanged; arguments and result as in `_leaf`."""
    if size > out.size - at:
        return np.int64(-FULL)
    copy_bytes(out, at, buf, start, size)
    return at + size


@step
def _bytes(op, out, at, buf, start, end, program):
    """Print the bytes of a field in the form of the step; arguments and result as in `_leaf`."""
    if MAX_ESCAPE * (end - start) > out.size - at:
        return np.int64(-FULL)
    if op == HEX:
        return put_hex(out, at, buf, start, end)
    if op == BASE64:
        return put_base64(out, at, buf, start, end)
    if op == STRING and not valid_utf8(buf, start, end):
        return np.int64(-UNUSUAL)
    return put_escaped(out, at, buf, start, end, program)


@step
def _leaf(row, buf, out, at, program, words, paths, slot, values, ends, asked):
    """Print a step without nested steps; return the next position in `out`, or the negated reason for a failure."""
    op = program.steps[row, OP]
    field = program.steps[row, FIELD]
    start = program.steps[row, START]
    room = out.size - at
    if op == LITERAL:
        return _text(out, at, program.literals, start, program.steps[row, STOP] - start)
    if op in (NUMBER, NUMBER32):
        if room < MAX_NUMBER:
            return np.int64(-FULL)
        value = values[field]
        if op == NUMBER32:
            value = value << 32 >> 32
        return put_number(out, at, value)
    if op in (DATA, HEX, BASE64, STRING):
        return _bytes(op, out, at, buf, values[field], ends[field], program)
    if op == WORD:
        return _word(row, out, at, program, words, values[field], asked)
    if op == DATE:
        if room < MAX_DATE:
            return np.int64(-FULL)
        reached = put_date(out, at, values[field], paths)
        return reached if reached >= 0 else np.int64(-UNUSUAL)
    if op in (COUNT, TOTAL):
        if room < MAX_NUMBER:
            return np.int64(-FULL)
        count, total = _elements(
            buf, values[field], ends[field], program, program.steps[row, SHAPE], start, values, ends
        )
        if count < 0:
            return np.int64(-UNUSUAL)
        return put_number(out, at, count if op == COUNT else total)
    if op == PATH:
        return _path(buf, out, at, values[field], ends[field], program, paths, slot)
    # the remaining kind of step is SEPARATE
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
    """Print the steps of a repeated field for each of its elements; arguments and result as in `_leaf`."""
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
            at = _text(out, at, program.literals, separator, size)
            if at < 0:
                return at
        begun = True
        pos, present = _next_element(buf, pos, end, program, row, values, ends)
        if present < 0:
            return np.int64(-UNUSUAL)
        for inner in range(first, behind):
            if program.steps[inner, OP] == TELL:
                tested = program.steps[inner, FIELD]
                if valid_utf8(buf, values[tested], ends[tested]):
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
    """Print one message; arguments and result as in `_leaf`."""
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
    """Print the delimited messages of a section from `pos` on; print each message completely or not at all.

    Args:
        out, at: result, and the position in it.
        slot, behind: number of the record at `pos`, and of the first record not to print.
        values, ends, levels: scratch, `SCRATCH` numbers, and a number for each level.
        asked: result for the reason `UNKNOWN_WORD`: kind and number of the word.

    Returns:
        (position of the next record, position in `out`, number of that record, reason for the stop).
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
