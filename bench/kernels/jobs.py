"""The job mix: operations of FileOutputCommitter and of tasks of MapReduce jobs, several jobs at a time.

A job creates its output directory with `_temporary/0`. Each task creates a directory for its attempt, writes a file of
one to three blocks there and renames the directory. At the end, the files are renamed into the output directory,
`_temporary` is deleted and `_SUCCESS` is created. The tasks of a job run in parallel, each with its own client.
"""

from __future__ import annotations

import numpy as np

from bench.kernels.names import put_decimal, put_path
from bench.kernels.operations import (
    ATTEMPT,
    ATTEMPT_NUMBER,
    BLOCK,
    FIRST_TRY,
    INODE,
    JOBS,
    MAP,
    OUT,
    PART,
    STAMP,
    STICKY,
    SUCCESS,
    TASK,
    TEMPORARY,
    begin,
    chance,
    end,
    put_bytes,
    put_client,
    put_int,
    put_long,
    put_no_features,
    put_no_rpc,
    put_permission,
    put_rpc,
    put_short,
    put_text,
    put_vlong,
    text_end,
    tick,
)
from image_format.kernels.jit import kernel

SLOTS, WRITERS = 12, 6
"""Parallel jobs, and parallel tasks of each."""
MOST_BLOCKS = 3
PHASE, JOB, OWNER, TASKS, STARTED, RUNNING, CURSOR, SIZE, INODE_OF_MARKER, TIME_OF_MARKER = range(10)
SLOT_FIELDS = 10
STEP, TASK_OF_WRITER, BLOCKS, TIME, FIRST_BLOCK = range(5)
WRITER_FIELDS = 5 + 3 * MOST_BLOCKS
"""Columns of a block: id, stamp and bytes."""
_BLOCK_SIZE = 128 << 20
_IDLE, _MKDIR, _ADD, _ALLOCATE, _STAMP, _ADD_BLOCK, _CLOSE, _RENAME = range(8)
_WRITE, _COMMIT, _CLEAN, _MARK, _END = range(4, 9)
"""Phases of a job that follow the creation of its four directories."""
_FEW_TASKS, _MANY_TASKS = 12, 150


@kernel
def put_mkdir(out, pos, tree, state, owner, path, size):
    """Append OP_MKDIR of the path in the first `size` bytes of `path`."""
    state.numbers[INODE] += 1
    now = tick(state)
    start = pos
    pos = put_long(out, begin(out, pos, state, 3), state.numbers[INODE])
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    pos = put_long(out, put_long(out, pos, now), now)
    pos = put_permission(out, pos, tree, owner, 0o755)
    return end(out, start, put_no_features(out, pos))


@kernel
def put_add(out, pos, tree, state, owner, path, size, job, task):
    """Append OP_ADD of a new file, by the client of a task."""
    state.numbers[INODE] += 1
    now = tick(state)
    start = pos
    pos = put_long(out, begin(out, pos, state, 0), state.numbers[INODE])
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    pos = put_short(out, pos, 3)
    pos = put_long(out, put_long(out, put_long(out, pos, now), now), _BLOCK_SIZE)
    pos = put_permission(out, put_int(out, pos, 0), tree, owner, 0o644)
    pos = put_client(out, put_no_features(out, pos), tree, job, task)
    out[pos] = 1
    out[pos + 1] = 0
    return end(out, start, put_rpc(out, pos + 2, state, job * 1000 + task))


@kernel
def put_close(out, pos, tree, state, owner, path, size, atime, blocks, count):
    """Append OP_CLOSE with `count` blocks, three numbers each in `blocks`."""
    now = tick(state)
    start = pos
    pos = put_long(out, begin(out, pos, state, 9), 0)
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    pos = put_short(out, pos, 3)
    pos = put_long(out, put_long(out, put_long(out, pos, now), atime), _BLOCK_SIZE)
    pos = put_int(out, pos, count)
    for k in range(count):
        pos = put_long(out, pos, blocks[3 * k])
        pos = put_long(out, pos, blocks[3 * k + 2])
        pos = put_long(out, pos, blocks[3 * k + 1])
    return end(out, start, put_permission(out, pos, tree, owner, 0o644))


@kernel
def put_rename(out, pos, state, source, source_size, target, target_size, client):
    """Append OP_RENAME_OLD."""
    start = pos
    pos = begin(out, pos, state, 1)
    pos = text_end(out, pos, put_bytes(out, pos + 2, source, source_size))
    pos = text_end(out, pos, put_bytes(out, pos + 2, target, target_size))
    return end(out, start, put_rpc(out, put_long(out, pos, tick(state)), state, client))


@kernel
def _begin_job(tree, state, slot):
    """Assign the next job to a slot: choose the job's directory and its number of tasks."""
    fields, path = state.slots[slot], state.outputs[slot]
    # a job's directory is not below a directory that may be deleted
    directory = 1 + chance(state, state.levels[4] - 1)
    state.numbers[JOBS] += 1
    fields[PHASE] = 0
    fields[JOB] = state.numbers[JOBS]
    fields[OWNER] = tree.owners[directory]
    fields[TASKS] = 1 + chance(state, _MANY_TASKS if chance(state, 10) == 0 else _FEW_TASKS)
    fields[STARTED] = fields[RUNNING] = fields[CURSOR] = 0
    size = put_text(path, put_path(path, 0, tree, directory), tree, OUT)
    fields[SIZE] = put_decimal(path, size, fields[JOB], 8)
    state.writers[slot, :, STEP] = _IDLE


@kernel
def _attempts(path, tree, slot_path, size, depth):
    """Write the first `depth` components of OUTPUT/_temporary/0/_temporary; return the length."""
    size = put_bytes(path, 0, slot_path, size)
    if depth > 0:
        size = put_text(path, size, tree, TEMPORARY)
    if depth > 1:
        size = put_text(path, size, tree, ATTEMPT_NUMBER)
    if depth > 2:
        size = put_text(path, size, tree, TEMPORARY)
    return size


@kernel
def _task_path(path, tree, slot_path, fields, task, attempt, with_file):
    """Write the path of a task's directory, of its attempt's directory or of its file; return the length."""
    size = _attempts(path, tree, slot_path, fields[SIZE], 3 if attempt else 2)
    size = put_text(path, size, tree, ATTEMPT if attempt else TASK)
    size = put_decimal(path, size, fields[JOB], 6)
    size = put_decimal(path, put_text(path, size, tree, MAP), task, 6)
    if attempt:
        size = put_text(path, size, tree, FIRST_TRY)
    if with_file:
        size = put_decimal(path, put_text(path, size, tree, PART), task, 5)
    return size


@kernel
def _put_block(out, pos, state, writer, path, size):
    """Append OP_ADD_BLOCK: the previous block with its full length, and a new empty block."""
    blocks = writer[FIRST_BLOCK:]
    last = writer[BLOCKS] - 1
    start = pos
    pos = begin(out, pos, state, 33)
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    pos = put_vlong(out, pos, 2 if last else 1)
    bytes_before = stamp_before = np.int64(0)
    if last:
        bytes_before, stamp_before = blocks[3 * last - 1], blocks[3 * last - 2]
        pos = put_long(out, pos, blocks[3 * last - 3])
        pos = put_vlong(out, put_vlong(out, pos, bytes_before), stamp_before)
    pos = put_long(out, pos, blocks[3 * last])
    pos = put_vlong(out, put_vlong(out, pos, -bytes_before), blocks[3 * last + 1] - stamp_before)
    return end(out, start, put_no_rpc(out, pos))


@kernel
def _allocate(out, pos, state, writer, step):
    """Append OP_ALLOCATE_BLOCK_ID, and later OP_SET_GENSTAMP_V2, for the writer's next block."""
    blocks = writer[FIRST_BLOCK:]
    start = pos
    if step == _ALLOCATE:
        if writer[BLOCKS]:
            blocks[3 * writer[BLOCKS] - 1] = _BLOCK_SIZE
        state.numbers[BLOCK] += 1
        blocks[3 * writer[BLOCKS]] = state.numbers[BLOCK]
        blocks[3 * writer[BLOCKS] + 2] = 1 + chance(state, _BLOCK_SIZE)
        return end(out, start, put_long(out, begin(out, pos, state, 32), state.numbers[BLOCK]))
    state.numbers[STAMP] += 1
    blocks[3 * writer[BLOCKS] + 1] = state.numbers[STAMP]
    writer[BLOCKS] += 1
    return end(out, start, put_long(out, begin(out, pos, state, 31), state.numbers[STAMP]))


@kernel
def _writer_step(out, pos, tree, state, slot, number, path, other):
    """Append the next transaction of a running task."""
    fields, writer, output = state.slots[slot], state.writers[slot, number], state.outputs[slot]
    task, step = writer[TASK_OF_WRITER], writer[STEP]
    client = fields[JOB] * 1000 + task
    size = _task_path(path, tree, output, fields, task, True, step not in (_MKDIR, _RENAME))
    state.numbers[STICKY] = -1
    writer[STEP] = step + 1
    if step == _MKDIR:
        return put_mkdir(out, pos, tree, state, fields[OWNER], path, size)
    if step == _ADD:
        pos = put_add(out, pos, tree, state, fields[OWNER], path, size, fields[JOB], task)
        writer[TIME] = tick(state)
        return pos
    if step in (_ALLOCATE, _STAMP):
        # the NameNode logs these operations and ADD_BLOCK under one lock
        state.numbers[STICKY] = slot * WRITERS + number
        return _allocate(out, pos, state, writer, step)
    if step == _ADD_BLOCK:
        if writer[BLOCKS] < MOST_BLOCKS and chance(state, 4) == 0:
            writer[STEP] = _ALLOCATE
        return _put_block(out, pos, state, writer, path, size)
    if step == _CLOSE:
        blocks = writer[FIRST_BLOCK:]
        return put_close(out, pos, tree, state, fields[OWNER], path, size, writer[TIME], blocks, writer[BLOCKS])
    writer[STEP] = _IDLE
    fields[RUNNING] -= 1
    target = _task_path(other, tree, output, fields, task, False, False)
    return put_rename(out, pos, state, path, size, other, target, client)


@kernel
def _task_step(out, pos, tree, state, slot, path, other):
    """Append the next transaction of a task of a job; the task may be new."""
    fields = state.slots[slot]
    number = chance(state, WRITERS)
    for _ in range(WRITERS):
        writer = state.writers[slot, number]
        if writer[STEP] == _IDLE and fields[STARTED] < fields[TASKS]:
            writer[STEP], writer[TASK_OF_WRITER], writer[BLOCKS] = _MKDIR, fields[STARTED], 0
            fields[STARTED] += 1
            fields[RUNNING] += 1
        if writer[STEP] != _IDLE:
            break
        number = (number + 1) % WRITERS
    pos = _writer_step(out, pos, tree, state, slot, number, path, other)
    if fields[RUNNING] == 0 and fields[STARTED] == fields[TASKS]:
        fields[PHASE] = _COMMIT
    return pos


@kernel
def _end_step(out, pos, tree, state, slot, path, other):
    """Append the next transaction of a job whose tasks are complete."""
    fields, output = state.slots[slot], state.outputs[slot]
    client = fields[JOB] * 1000 + 999
    if fields[PHASE] == _COMMIT:
        task = fields[CURSOR]
        size = _task_path(path, tree, output, fields, task, False, True)
        target = put_text(other, put_bytes(other, 0, output, fields[SIZE]), tree, PART)
        target = put_decimal(other, target, task, 5)
        fields[CURSOR] += 1
        if fields[CURSOR] == fields[TASKS]:
            fields[PHASE] = _CLEAN
        return put_rename(out, pos, state, path, size, other, target, client)
    fields[PHASE] += 1
    if fields[PHASE] == _MARK:
        start = pos
        size = _attempts(path, tree, output, fields[SIZE], 1)
        pos = begin(out, pos, state, 2)
        pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
        return end(out, start, put_rpc(out, put_long(out, pos, tick(state)), state, client))
    size = put_text(path, put_bytes(path, 0, output, fields[SIZE]), tree, SUCCESS)
    if fields[PHASE] == _END:
        pos = put_add(out, pos, tree, state, fields[OWNER], path, size, fields[JOB], 999)
        fields[TIME_OF_MARKER] = tick(state)
        return pos
    none = np.empty(0, np.int64)
    pos = put_close(out, pos, tree, state, fields[OWNER], path, size, fields[TIME_OF_MARKER], none, 0)
    _begin_job(tree, state, slot)
    return pos


@kernel
def job_step(out, pos, tree, state, path, other):
    """Append the next transaction of a job; `path` and `other` have space for a path each."""
    if state.numbers[STICKY] >= 0:
        slot, number = divmod(state.numbers[STICKY], WRITERS)
        return _writer_step(out, pos, tree, state, slot, number, path, other)
    slot = chance(state, SLOTS)
    fields = state.slots[slot]
    if fields[JOB] == 0:
        _begin_job(tree, state, slot)
    phase = fields[PHASE]
    if phase < _WRITE:
        fields[PHASE] += 1
        size = _attempts(path, tree, state.outputs[slot], fields[SIZE], phase)
        return put_mkdir(out, pos, tree, state, fields[OWNER], path, size)
    if phase == _WRITE:
        return _task_step(out, pos, tree, state, slot, path, other)
    return _end_step(out, pos, tree, state, slot, path, other)
