"""The job mix: operations of FileOutputCommitter and of tasks of MapReduce jobs, several jobs at a time.

A job creates its output directory with `_temporary/0`. Each task creates a directory for its attempt, writes a file of
one to three blocks there and renames the directory. At the end, the files are renamed into the output directory,
`_temporary` is deleted and `_SUCCESS` is created. The tasks of a job run in parallel, each with its own client.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from bench.edit_state import EditState
from journal import ops

Steps = Iterator[list[ops.EditOp]]
"""Operations in groups; no other operation is between the operations of a group."""
_JOBS, _TASKS = 12, 6
"""Numbers of parallel jobs, and of parallel tasks in each job."""
_MOST_BLOCKS = 3
_FEW_TASKS, _MANY_TASKS = 12, 150


def job_operations(state: EditState) -> Steps:
    running = [_job(state) for _ in range(_JOBS)]
    while True:
        number = state.random.randrange(_JOBS)
        step = next(running[number], None)
        if step is None:
            running[number] = _job(state)
        else:
            yield step


def _job(state: EditState) -> Steps:
    directory = state.upper_directory()
    state.jobs += 1
    job, owner = state.jobs, state.owner(directory)
    tasks = 1 + state.random.randrange(_FEW_TASKS if state.random.randrange(10) else _MANY_TASKS)
    output = f"{state.tree.path(directory)}/out-{job:08d}"
    for path in (output, f"{output}/_temporary", f"{output}/_temporary/0", f"{output}/_temporary/0/_temporary"):
        yield [state.mkdir(owner, path)]
    waiting = (_task(state, owner, job, task, output) for task in range(tasks))
    running = list(islice(waiting, _TASKS))
    while running:
        number = state.random.randrange(len(running))
        step = next(running[number], None)
        if step is None:
            running[number : number + 1] = islice(waiting, 1)
        else:
            yield step
    client = job * 1000 + 999
    for task in range(tasks):
        name = f"part-m-{task:05d}"
        yield [state.rename(f"{_task_path(output, job, task)}/{name}", f"{output}/{name}", client)]
    yield [state.delete(f"{output}/_temporary", client)]
    added = state.add(owner, f"{output}/_SUCCESS", job, 999)
    yield [added]
    yield [state.close(added)]


def _task(state: EditState, owner: int, job: int, task: int, output: str) -> Steps:
    attempt = f"{output}/_temporary/0/_temporary/attempt_1700000000000_{job:06d}_m_{task:06d}_0"
    yield [state.mkdir(owner, attempt)]
    added = state.add(owner, f"{attempt}/part-m-{task:05d}", job, task)
    yield [added]
    blocks: list[ops.Block] = []
    while not blocks or (len(blocks) < _MOST_BLOCKS and state.random.randrange(4) == 0):
        yield state.add_block(added.path, blocks)
    yield [state.close(added, blocks)]
    yield [state.rename(attempt, _task_path(output, job, task), job * 1000 + task)]


def _task_path(output: str, job: int, task: int) -> str:
    return f"{output}/_temporary/0/task_1700000000000_{job:06d}_m_{task:06d}"
