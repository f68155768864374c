"""`python -m bench.large`: whole checkpoints over increasing sizes, up to the largest image that fits on the disk.

For each size, the benchmark generates the NameNode's image, fetches it with our download and merges edits. Then it
verifies the result with `checkpointer image verify` and uploads the result with our PUT to a server that discards it.
The floor is measured in the same run on the new image. The disk never contains more than two images. The NameNode's
image is removed after the fetch, since in production it is on another machine. The old image is removed before the copy
of the floor. With short names, an image is a quarter smaller, so more inodes fit on the disk.

With --cgroup, the benchmark only compares two merges: one in a control group with little memory, and one without a
limit. Before each merge, its files are dropped from the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.edits import write_edits
from bench.floor import direct_copy
from bench.phases import PARTS, Part, Run, run_phases, run_process
from bench.scene import CONSOLE, machine, make_image
from bench.transfer_sides import SIDES, Server, serving
from hadoop_common.names import image_name
from image_format.md5_file import md5_path

_SIZES = (10_000_000, 30_000_000, 100_000_000)
_WANTED, _STEP = 300_000_000, 5_000_000
_PREDICTED = 1_000_000_000
_SLACK = 3 << 30
"""Bytes of the disk that remain free."""
_BYTES_A_TRANSACTION = 200
_WRITES_IN_FLIGHT = 2
_POLL_SECONDS = 0.2
_GROUP_HINT = "as root, give --cgroup /sys/fs/cgroup/memory (version 1) or /sys/fs/cgroup (version 2)"
_MEMINFO = re.compile(r"^(Cached|Dirty):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class SizeResult:
    """Results of one size: seconds of each part and the floor, CPU seconds (both ends of a transfer), bytes of memory.

    Attributes:
        seconds, cpu: fetch, load, replay, write, verify (if not refused), upload; floor: md5sum, copy, read.
        anonymous, cache, dirty: peaks during the merge; of the system's page cache, only the growth counts.
    """

    inodes: int
    transactions: int
    image: int
    seconds: dict[str, float]
    cpu: dict[str, float]
    floor: dict[str, float]
    anonymous: int
    cache: int
    dirty: int

    @property
    def merge(self) -> float:
        return sum(self.seconds[part] for part in PARTS)

    @property
    def least(self) -> float:
        """Seconds of the longest part: digest, durable copy or sequential read."""
        return max(self.floor.values())


class _CacheSampler(threading.Thread):
    """Sampler of the largest growth of the system's page cache, and of the largest number of dirty bytes."""

    def __init__(self) -> None:
        super().__init__(name="cache-sampler", daemon=True)
        self._end = threading.Event()
        self._before = self._read()["Cached"]
        self.grown = self.dirty = 0

    @staticmethod
    def _read() -> dict[str, int]:
        found = _MEMINFO.findall(Path("/proc/meminfo").read_text())
        return {name: int(size) << 10 for name, size in found}

    def run(self) -> None:
        while not self._end.wait(_POLL_SECONDS):
            now = self._read()
            self.grown = max(self.grown, now["Cached"] - self._before)
            self.dirty = max(self.dirty, now["Dirty"])

    def stop(self) -> None:
        self._end.set()
        self.join()


class _Size:
    """The files of one size, below a folder that is removed at the end."""

    def __init__(self, folder: Path, inodes: int, transactions: int, *, short_names: bool = False) -> None:
        self._namenode, self._ours = folder / "namenode", folder / "ours" / "current"
        self._transactions, self._inodes = transactions, inodes
        self._ours.mkdir(parents=True)
        base = make_image(self._namenode, inodes, snapshots=False, seed=1, short_names=short_names)
        self._txid, self._name = base.txid, base.path.name
        write_edits(base, transactions, "jobs")
        os.sync()

    def measure(self) -> SizeResult:
        parts = {"fetch": self._fetch()}
        cache = _CacheSampler()
        cache.start()
        merged = self.merge()
        cache.stop()
        parts |= {name: merged.parts[name] for name in PARTS}
        new = self._ours / image_name(self._txid + self._transactions)
        with suppress(subprocess.CalledProcessError):
            # verify refuses an image that needs more memory than the machine has
            parts["verify"] = run_process([sys.executable, "-m", "checkpointer", "image", "verify", str(new)])
        parts["upload"] = self._upload(new)
        old = self._ours / self._name
        old.unlink()
        size = new.stat().st_size
        floor = {
            "md5sum": run_process(["md5sum", str(new)]),
            "copy": direct_copy(new, self._ours / "copy", _WRITES_IN_FLIGHT),
            "read": run_process(["dd", f"if={new}", f"of={os.devnull}", "bs=4M", "iflag=direct", "status=none"]),
        }
        return SizeResult(
            self._inodes,
            self._transactions,
            size,
            {name: part.seconds for name, part in parts.items()},
            {name: part.cpu for name, part in parts.items()},
            {name: part.seconds for name, part in floor.items() if part is not None},
            merged.parts["whole"].anonymous,
            cache.grown,
            cache.dirty,
        )

    def _fetch(self) -> Part:
        """Download the image, then remove the NameNode's copy; the edits follow the fetched image."""
        source = self._namenode / "current"
        with serving("serve", source, self._ours, 0) as server:
            taken = _timed_side("download", server, self._txid, self._ours)
        (source / self._name).unlink()
        md5_path(source / self._name).unlink()
        for path in source.iterdir():
            path.rename(self._ours / path.name)
        os.sync()
        return taken

    def merge(self, prefix: Sequence[str] = ()) -> Run:
        """Run one merge and keep its image; `prefix` precedes the command."""
        return run_phases([*prefix, sys.executable, "-m", "bench.one_merge", "--keep", str(self._ours)])

    def _upload(self, new: Path) -> Part:
        with serving("plain", new) as server:
            return _timed_side("upload", server, self._txid, new)


def _timed_side(side: str, server: Server, txid: int, path: Path) -> Part:
    """Run one of our clients, which measures its own time, since its start is not part of the transfer."""
    before = server.cpu()
    done = subprocess.run(
        [*SIDES, side, server.url, str(txid), str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    taken = json.loads(done.stdout)
    return Part(taken["seconds"], taken["cpu"] + server.cpu() - before, 0)


# ---- a group with little memory ------------------------------------------------------------------------------


@contextmanager
def memory_group(parent: Path, limit: int) -> Iterator[list[str]]:
    """Yield a command prefix for a new control group below `parent` with a limit in bytes, page cache included.

    Args:
        parent: a group of the memory controller, version 1 or 2.

    Raises:
        SystemExit: a group cannot be created there.
    """
    group = parent / f"bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as fault:
        raise SystemExit(f"cannot create a cgroup in {parent}: {fault.strerror}; {_GROUP_HINT}") from fault
    try:
        limits = [path for name in ("memory.max", "memory.limit_in_bytes") if (path := group / name).exists()]
        if not limits:
            raise SystemExit(f"{parent} has no memory controller; {_GROUP_HINT}")
        limits[0].write_text(str(limit))
        yield ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
    finally:
        group.rmdir()


def _limited(folder: Path, arguments: argparse.Namespace, prefix: Sequence[str]) -> str:
    """Compare a merge without a limit with a merge whose command follows `prefix`; return a line of Markdown."""
    scene = _Size(folder, arguments.group_inodes, arguments.transactions, short_names=arguments.short_names)
    current = folder / "ours" / "current"
    current.rmdir()
    (folder / "namenode" / "current").rename(current)
    made = set(current.iterdir())
    runs: dict[str, Part] = {}
    for name, command in {"without": (), "with": prefix}.items():
        _forget(current)
        with CONSOLE.status(f"a merge {name} a limit"):
            runs[name] = scene.merge(command).parts["whole"]
        for path in set(current.iterdir()) - made:
            path.unlink()
    seconds = {name: run.seconds for name, run in runs.items()}
    size = f"{arguments.group_inodes:,} inodes in a group with {arguments.group_memory >> 20} MiB, page cache included"
    times = f"{seconds['with']:.1f} s, without a limit {seconds['without']:.1f} s"
    memory = f"anonymous memory {runs['with'].anonymous / 1e6:,.0f} and {runs['without'].anonymous / 1e6:,.0f} MB"
    return f"- {size}: {times}, {seconds['with'] / seconds['without']:.2f} x; {memory}"


def _forget(folder: Path) -> None:
    """Drop the files of a folder from the page cache, because a control group does not count cached files."""
    os.sync()
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# ---- results -------------------------------------------------------------------------------------------------


def largest(free: int, image: float, transactions: int) -> int:
    """Return the largest number of inodes, up to 300 million, for which two images fit on the disk."""
    room = (free - _SLACK - _BYTES_A_TRANSACTION * transactions) / 2
    return min(_WANTED, int(room / image) // _STEP * _STEP)


def line(results: Sequence[SizeResult], cost: Callable[[SizeResult], float]) -> tuple[float, float, list[float]]:
    """Return (constant, slope per inode, relative residuals) of the line with the least squared relative residuals."""
    costs = np.array([cost(each) for each in results])
    terms = np.array([(1.0, each.inodes / 1e6) for each in results])
    (constant, slope), *_ = np.linalg.lstsq(terms / costs[:, None], np.ones(costs.size), rcond=None)
    return float(constant), float(slope) / 1e6, (costs / (terms @ (constant, slope)) - 1).tolist()


def _cells(seconds: Mapping[str, float], names: Sequence[str]) -> list[str]:
    return [f"{seconds[name]:.1f}" if name in seconds else "" for name in names]


def report(results: Sequence[SizeResult]) -> list[str]:
    """Return the results as Markdown."""
    parts, floors = list(results[0].seconds), list(results[0].floor)
    out = [
        f"| inodes | GB | {' | '.join(parts)} | merge | {' | '.join(floors)} | (merge - replay) / floor |",
        "|---:" * (len(parts) + len(floors) + 4) + "|",
    ]
    for each in results:
        ratio = (each.merge - each.seconds["replay"]) / each.least
        seconds = " | ".join([*_cells(each.seconds, parts), f"{each.merge:.1f}", *_cells(each.floor, floors)])
        out.append(f"| {each.inodes:,} | {each.image / 1e9:.1f} | {seconds} | {ratio:.2f} |")
    out += ["", f"| inodes | transactions | anonymous MB | page cache MB | dirty MB | {' | '.join(parts)} |"]
    out.append("|---:" * (len(parts) + 5) + "|")
    for each in results:
        memory = " | ".join(f"{size / 1e6:,.0f}" for size in (each.anonymous, each.cache, each.dirty))
        seconds = " | ".join(_cells(each.cpu, parts))
        out.append(f"| {each.inodes:,} | {each.transactions:,} | {memory} | {seconds} |")
    out += ["", "The second table shows CPU seconds.", ""]
    if len(results) > 1:
        costs: dict[str, Callable[[SizeResult], float]] = {
            "load and write, s": lambda each: each.seconds["load"] + each.seconds["write"],
            "fetch, s": lambda each: each.seconds["fetch"],
            "floor, s": lambda each: each.least,
            "anonymous memory, MB": lambda each: each.anonymous / 1e6,
        }
        for name, cost in costs.items():
            constant, slope, residuals = line(results, cost)
            at = constant + slope * _PREDICTED
            off = ", ".join(f"{each:+.0%}" for each in residuals)
            error = max(map(abs, residuals))
            out.append(f"- {name}: {constant:.2f} + {slope * 1e6:.3f} a million inodes; residuals {off}; ")
            out[-1] += f"{_PREDICTED:,} inodes: {at:,.0f} +- {at * error:,.0f}"
    return out


def _end(*_: object) -> None:
    sys.exit("terminated; the files are removed")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument("--inodes", type=int, nargs="+", default=_SIZES)
    parser.add_argument("--without-largest", action="store_true", help="leave out the largest size that fits")
    parser.add_argument("--transactions", type=int, default=1_000_000, help="of each size but the largest")
    parser.add_argument("--most-transactions", type=int, default=10_000_000, help="of the largest")
    parser.add_argument("--short-names", action="store_true", help="files with names of six bytes")
    parser.add_argument(
        "--cgroup",
        type=Path,
        help="parent control group; only compare a merge in little memory with an unlimited merge",
    )
    parser.add_argument("--group-inodes", type=int, default=100_000_000)
    parser.add_argument("--group-memory", type=int, default=2 << 30, help="bytes, page cache included")
    parser.add_argument("--work-dir", type=Path, help="working directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    results: list[SizeResult] = []
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
        if arguments.cgroup is not None:
            with memory_group(arguments.cgroup, arguments.group_memory) as prefix:
                print(f"`python -m bench.large` on {machine()}:\n\n{_limited(Path(scratch), arguments, prefix)}")
            return
        sizes = [(inodes, arguments.transactions) for inodes in sorted(arguments.inodes)]
        if not arguments.without_largest:
            sizes.append((0, arguments.most_transactions))
        for inodes, transactions in sizes:
            folder = Path(scratch) / str(inodes)
            known = results[-1].image / results[-1].inodes if results else 110.0
            most = largest(shutil.disk_usage(scratch).free, known, transactions)
            if inodes > most:
                raise SystemExit(f"the disk has room for two images of {most:,} inodes, not of {inodes:,}")
            size = _Size(folder, inodes or most, transactions, short_names=arguments.short_names)
            results.append(size.measure())
            shutil.rmtree(folder)
            print("\n".join(report(results[-1:])), file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps({"machine": machine(), "sizes": [asdict(each) for each in results]}))
        return
    print("\n".join([f"`python -m bench.large` on {machine()}:", "", *report(results)]))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
