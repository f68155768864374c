"""Small jobs do not wait for a compiler; each case runs in a separate process with a fresh cache."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hadoop_common.names import image_name
from image_format.compiling.background import BackgroundCompiler, Request
from image_format.compiling.choice import MAX_BYTES, MAX_SECONDS, KernelChoice
from image_format.compiling.cost import COSTS
from image_format.compiling.mode import VARIABLE
from image_format.compiling.plain import call_plain, plain_form
from image_format.kernels import inode, merge, scan, tables, wire
from image_format.kernels.jit import Kernel

ROOT = Path(__file__).parents[2]
KERNEL = """
import numpy as np
from image_format.kernels.jit import kernel

@kernel
def total(values):
    sum = 0
    for i in range(values.size):
        sum += values[i]
    return sum

def is_compiled():
    return bool(total.dispatcher.signatures)
"""
# the compiler normally runs only on idle processors, and a busy machine has no idle processors
PRIORITY = """
import os
from hadoop_common import process_tuning
os.nice = os.sched_setscheduler = process_tuning.lower_session_priority = lambda *_: None
"""
SMALL = """
from kept import *
assert total(np.arange(5, dtype=np.uint8)) == 10
print(is_compiled())
"""
LARGE = f"""
from kept import *
assert total(np.ones({MAX_BYTES + 1}, dtype=np.uint8)) == {MAX_BYTES + 1}
print(is_compiled())
"""
NO_FOLDER = """
from numba.core.caching import CacheImpl
CacheImpl._locator_classes = []
"""
OTHER_NUMBA = """
from image_format.kernels import jit
jit._TESTED_NUMBA = (0, 1)
"""
NO_STAMP = """
from image_format.kernels import jit, kept_files
jit._TESTED_NUMBA = (0, 1)
kept_files._PRIVATE = ("missing",)
"""
NEW_INODES = """
from pathlib import Path
from engine import warm_up
from hadoop_common.names import image_name
from image_format.compiling import choice
from image_format.compiling.background import BackgroundCompiler
from image_format.md5_file import md5_of_file, write_md5_file
from journal import ops

def compiles():
    raise AssertionError("a call compiles its kernel")

choice._warn_once = compiles
BackgroundCompiler.ask = lambda self, request: None
owner = ops.PermissionStatus("hdfs", "supergroup", 0o755)
made = [ops.MkdirOp(path=f"/d/{i}", inode_id=20000 + i, timestamp=1, permissions=owner) for i in range(5000)]
folder = Path("FOLDER")
image = folder / image_name(1)
image.write_bytes(warm_up.small_image())
write_md5_file(image, md5_of_file(image))
merged = warm_up._merge(folder, image, warm_up._WarmUpStep(made), reads=False)
print(merged.name)
"""
MODULES = {"inode": inode, "merge": merge, "scan": scan, "tables": tables}
BYTES_PER_INODE = {"buf": 60, "children": 8, "out": 10, "sizes": 0.2, "spans": 16}
"""Bytes of the arguments per inode; few new inodes are looked up in directories of the image."""


def _run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "kept.py").write_text(KERNEL)
    (folder / "sitecustomize.py").write_text(PRIORITY)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            VARIABLE: "",
            "NUMBA_CACHE_DIR": str(folder / "cache"),
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


def _wait_for_compiler(folder: Path) -> None:
    """Wait until the compiler releases its lock. It exits, and the system releases the lock, once no process sends
    requests.
    """
    (lock,) = folder.glob("cache/*/kernel-compiler.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def test_small_jobs_run_as_python_during_compilation(tmp_path: Path) -> None:
    first = _run(tmp_path, SMALL)
    assert (first.stdout, first.stderr) == ("False\n", "")
    _wait_for_compiler(tmp_path)
    assert _run(tmp_path, SMALL).stdout == "True\n"


@pytest.mark.deep
def test_a_process_uses_kernels_that_were_compiled_in_the_background(tmp_path: Path) -> None:
    program = f"""
from image_format.compiling import choice
choice._RETRY_AFTER = 0.0
{SMALL}
import fcntl, pathlib
from image_format.compiling.background import BACKGROUND
BACKGROUND.forget()
(lock,) = pathlib.Path({str(tmp_path)!r}).glob("cache/*/kernel-compiler.lock")
fcntl.flock(lock.open(), fcntl.LOCK_EX)
total(np.arange(5, dtype=np.uint8))
print(is_compiled())
"""
    assert _run(tmp_path, program).stdout == "False\nTrue\n"


def test_large_jobs_wait_for_the_compiler_with_one_message(tmp_path: Path) -> None:
    found = _run(tmp_path, LARGE + "total(np.ones(1 << 21, dtype=np.int8))")
    assert found.stdout == "True\n"
    assert found.stderr.count("compiling kernels for a large namespace") == 1
    assert list(tmp_path.rglob("kept.total*.nbc"))
    assert _run(tmp_path, LARGE).stderr == ""


@pytest.mark.deep
def test_many_small_jobs_lead_to_compilation(tmp_path: Path) -> None:
    program = f"""
from kept import *
first = total(np.arange(5, dtype=np.uint8))
total._choice._seconds = {MAX_SECONDS}
assert total(np.arange(5, dtype=np.uint8)) == first == 10
print(is_compiled())
"""
    assert _run(tmp_path, program).stdout == "True\n"


@pytest.mark.deep
@pytest.mark.parametrize("fault", [NO_FOLDER, OTHER_NUMBA, NO_STAMP], ids=["no folder", "other Numba", "no stamp"])
def test_kernels_run_without_a_cache_or_with_another_numba(tmp_path: Path, fault: str) -> None:
    assert _run(tmp_path, fault + SMALL).stdout == "False\n"
    assert _run(tmp_path, fault + LARGE).stdout == "True\n"
    # with our stamp, another version of Numba finds the code that it stored
    kept = list(tmp_path.rglob("kept.total*.nbc"))
    assert bool(kept) == (fault == OTHER_NUMBA)


def _choice_of(listed: str) -> tuple[KernelChoice, tuple[str, ...]]:
    """Return the choice of a kernel and the names of its arguments."""
    module, name = listed.split(".")
    kernel: Kernel = getattr(MODULES[module], name)
    assert kernel.dispatcher
    assert kernel._choice is not None
    code = kernel.py_func.__code__
    return kernel._choice, code.co_varnames[: code.co_argcount]


@pytest.mark.parametrize("listed", COSTS)
def test_jobs_of_twenty_thousand_inodes_do_not_wait_for_the_compiler(listed: str) -> None:
    """Only the number of inodes that the call processes matters; the size of tables and sections does not."""
    choice, names = _choice_of(listed)
    work = COSTS[listed].arguments
    assert set(work) <= set(names)

    def is_little(inodes: int) -> bool:
        sizes = {each: int(BYTES_PER_INODE.get(each, 0) * inodes) for each in work}
        values: dict[str, object] = {each: np.zeros(sizes.get(each, 64 * MAX_BYTES), np.uint8) for each in names}
        values |= {"rows": _files(1), "wanted": np.zeros(inodes, np.int64)}
        # the section is one piece, whose first record is known
        values |= {"pos": 60, "stop": 60 if inodes < 60_000 else 4 << 20}
        return choice._is_little(tuple(values[each] for each in names))

    assert is_little(20_000)
    assert is_little(2_000_000) == (not work)


def _files(blocks: int) -> npt.NDArray[np.void]:
    """Return the inode table of one file with `blocks` blocks."""
    rows = np.zeros(1, inode.INODE_DTYPE)
    rows["block_count"] = blocks
    return rows


@pytest.mark.parametrize("name", ["encode_inodes", "encoded_size"])
def test_a_few_files_with_many_blocks_are_a_large_job(name: str) -> None:
    choice, names = _choice_of(f"inode.{name}")
    values = dict.fromkeys(names) | {"rows": _files(10_000), "wanted": np.zeros(100, np.int64)}
    assert not choice._is_little(tuple(values.values()))


@pytest.mark.deep
def test_a_merge_of_new_inodes_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    assert _run(tmp_path, NEW_INODES.replace("FOLDER", str(tmp_path))).stdout == f"{image_name(5003)}\n"


def test_no_second_compiler_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_format.compiling.background._cache_folder", lambda: tmp_path)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    with (tmp_path / "kernel-compiler.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        BackgroundCompiler().ask(Request("a", "b", ()))


def test_the_compiler_has_the_lowest_process_and_session_priority() -> None:
    """Linux may divide the cores among sessions first, and the compiler runs in its own session."""
    program = """
from image_format.compiling import __main__ as compiler
compiler.lower_session_priority = lambda *given: print(*given)
compiler._be_last()
import os
print(os.getpid(), os.nice(0))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    session, process = ended.stdout.splitlines()
    assert session == process
    assert session.endswith(" 19")


def test_the_compiler_ends_when_the_given_process_ends() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = "from image_format.compiling import __main__ as compiler; compiler._IDLE = 3600; compiler.main()"
    with subprocess.Popen(["sleep", "3600"]) as named, ours:
        environment = {**os.environ, "CHECKPOINTER_KERNELS_UNTIL": str(named.pid)}
        with theirs:
            compiler = subprocess.Popen(
                [sys.executable, "-c", program], stdin=theirs, env=environment, start_new_session=True
            )
        named.kill()
        assert compiler.wait(600) == 0


def test_failed_compilations_are_requested_three_times_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each compiler that is started ends without a result."""
    started = []

    class Ended:
        def __init__(self, *_: object, **__: object) -> None:
            started.append(self)

        def poll(self) -> int:
            return 1

        wait = poll

    monkeypatch.setattr("image_format.compiling.background._cache_folder", lambda: tmp_path)
    monkeypatch.setattr("image_format.compiling.background.available_memory", lambda: 0)
    monkeypatch.setattr(subprocess, "Popen", Ended)
    asking = BackgroundCompiler()
    for _ in range(9):
        asking.ask(Request("a", "b", ()))
    assert len(started) == 3


def test_no_compiler_is_started_if_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_format.compiling.background._cache_folder", lambda: tmp_path)
    monkeypatch.setattr("image_format.compiling.background.available_memory", lambda: 1 << 20)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    BackgroundCompiler().ask(Request("a", "b", ()))


# ---- the arithmetic of Python forms ------------------------------------------------------------------------


def _sum_of(values, rows):  # type: ignore[no-untyped-def]
    values[0] += values[1]
    return values[0] + values[1], rows["size"][0] + rows[0]["size"], values[1] << 8, -values[1]


def test_plain_kernels_load_narrow_array_elements_as_wide_integers() -> None:
    rows = np.array([(0xFFFF,)], [("size", "u2")])
    values = np.array([200, 100], np.uint8)
    found = call_plain(plain_form(_sum_of, {}), (values, rows))
    assert found == (44 + 100, 2 * 0xFFFF, 100 << 8, -100)
    assert values.tolist() == [44, 100]
    assert {type(each) for each in found} == {int}


@pytest.mark.filterwarnings("error")
def test_plain_kernels_wrap_on_overflow_without_a_warning() -> None:
    form = plain_form(_wraps, {})
    assert call_plain(form, ((1 << 63) - 1, np.uint64(1 << 63))) == (-(1 << 63), 1 << 63)


def _wraps(signed, unsigned):  # type: ignore[no-untyped-def]
    return signed + 1, unsigned * np.uint64(3)


@pytest.mark.parametrize("value", [0, 127, 128, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 70) - 1])
def test_plain_kernels_read_varints_of_any_length_alike(value: int) -> None:
    encoded = bytes(value >> 7 * i & 0x7F | (0x80 if value >> 7 * (i + 1) else 0) for i in range(11))
    buffer = np.frombuffer(encoded, np.uint8)
    for end in range(12):
        assert wire.read_varint(buffer, 0, end) == wire.read_varint.plainly(buffer, 0, end)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [0, 1, -1, (1 << 63) - 1, -(1 << 63)])
def test_plain_kernels_hash_numbers_alike(number: int) -> None:
    assert tables._spread(number) == tables._spread.plainly(number)
    slots = np.zeros((8, 2), np.int64)
    assert tables.place_of_number(slots, number) == tables.place_of_number.plainly(slots, number)
