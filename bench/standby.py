"""`python -m bench.standby`: a standby's checkpoint of a warm namespace, and the cost of tailing edits.

An image of jobs, or of scattered directories, is loaded once. In each round, transactions are applied in batches, as a
tailer applies them, and the namespace is saved. The time of a checkpoint runs from its trigger until the image has its
final name, and includes applying the last batches. Then the image is uploaded to a server, directly and through a relay
of 1 Gbit/s. Like a NameNode, the server computes the MD5, syncs the file and renames it. Finally, the image becomes the
namespace's base.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from bench.edits import write_edits
from bench.floor import run_floor
from bench.scene import machine, make_image, read_all
from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import SCATTERED, SHAPES, Layout
from bench.transfer_sides import NAMESPACE, serving
from checkpointer.transfer import UploadResult, upload_image
from engine.observer import SilentObserver
from engine.warm_namespace import WarmNamespace
from engine.warm_up import warm_up
from hadoop_common.names import image_name
from hadoop_common.process_tuning import collect_garbage_rarely
from image_format.md5_file import md5_path, read_md5_file
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments

_BATCH = 1_000
_GIGABIT = 125_000_000
"""Bytes per second."""


@dataclass(frozen=True)
class Round:
    """One checkpoint.

    Attributes:
        checkpoint: seconds from its trigger until the image has its final name.
        rebase: seconds until the image is the base of the namespace, so that the next batch can be applied.
        tail: median of the CPU milliseconds for a batch of 1,000 transactions.
        memory: bytes of anonymous memory afterwards.
        committed: seconds from the trigger until the receiver confirms that it has the image, by connection.
    """

    checkpoint: float
    rebase: float
    tail: float
    memory: int
    committed: dict[str, float]


class _Renamed(SilentObserver):
    """Recorder of the time at which the image receives its final name."""

    at = 0.0

    def saved(self) -> None:
        self.at = time.monotonic()


def _apply(namespace: WarmNamespace, segments: Sequence[EditLogSegment]) -> list[float]:
    """Return CPU seconds for each segment."""
    taken = []
    for segment in segments:
        begun = time.process_time()
        namespace.apply(SegmentTransactions([segment], namespace.last_txid + 1), expected=_BATCH)
        taken.append(time.process_time() - begun)
    return taken


class _Receiver:
    """A server that stores an image in `folder`; `urls` are its addresses by the name of the connection."""

    def __init__(self, urls: Mapping[str, str], folder: Path) -> None:
        self._urls = urls
        self._folder = folder

    def upload(self, image: Path, md5: str, txid: int) -> dict[str, float]:
        """Return the seconds of an upload over each connection."""
        taken = {}
        for way, url in self._urls.items():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
            begun = time.monotonic()
            result = upload_image(url, image, md5, txid, NAMESPACE)
            if result is not UploadResult.SUCCESS:
                raise SystemExit(f"the upload returned {result.name}")
            taken[way] = time.monotonic() - begun
        return taken


def _round(
    namespace: WarmNamespace, current: Path, segments: Sequence[EditLogSegment], behind: int, receiver: _Receiver
) -> Round:
    """Apply all segments but the last `behind`, then make and upload a checkpoint, which applies the rest."""
    tail = _apply(namespace, segments[:-behind])
    base, renamed = namespace.base_txid, _Renamed()
    begun = time.monotonic()
    tail += _apply(namespace, segments[-behind:])
    saved = namespace.save([current], observer=renamed).saved
    done = time.monotonic() - begun
    uploads = receiver.upload(saved.paths[0], saved.md5, saved.txid)
    begun_rebase = time.monotonic()
    namespace.rebase()
    rebase = time.monotonic() - begun_rebase
    old = current / image_name(base)
    old.unlink()
    md5_path(old).unlink()
    memory = psutil.Process().memory_info()
    return Round(
        renamed.at - begun,
        rebase,
        1000 * statistics.median(tail),
        memory.rss - memory.shared,
        {way: done + seconds for way, seconds in uploads.items()},
    )


def _scene(folder: Path, arguments: argparse.Namespace) -> Path:
    """Write an image and segments of 1,000 transactions for all rounds; return the image's path."""
    transactions = arguments.rounds * arguments.transactions
    if arguments.mix == SCATTERED:
        layout, current = Layout(SHAPES[SCATTERED], arguments.inodes), folder / "current"
        current.mkdir()
        image = write_shape(current, layout)
        write_scattered(current, layout, _BATCH, segments=transactions // _BATCH)
        return image
    base = make_image(folder, arguments.inodes, snapshots=False, seed=1)
    write_edits(base, transactions, arguments.mix, segment=_BATCH)
    return base.path


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(prog="python -m bench.standby", description=__doc__)
    parser.add_argument("--inodes", type=int, default=10_000_000)
    parser.add_argument("--mix", choices=("jobs", SCATTERED), default="jobs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transactions", type=int, default=100_000, help="transactions of a round")
    parser.add_argument("--behind", type=int, default=10_000, help="of them, not applied when a checkpoint begins")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    collect_garbage_rarely()
    warm_up()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        WarmNamespace() as namespace,
        serving("namenode", stored := Path(folder) / "stored") as server,
        serving("relay", server.url, _GIGABIT) as relay,
    ):
        receiver = _Receiver({"loopback": server.url, "1 Gbit/s": relay.url}, stored)
        image = _scene(Path(folder), arguments)
        current = image.parent
        segments = list_segments(current)
        read_all(current)
        floor = run_floor(image, current / "copy")
        namespace.load(image)
        # A NameNode has received images before.
        receiver.upload(image, read_md5_file(image).hex(), namespace.base_txid)
        size, behind = arguments.transactions // _BATCH, arguments.behind // _BATCH
        rounds = [
            _round(namespace, current, segments[at : at + size], behind, receiver)
            for at in range(0, size * arguments.rounds, size)
        ]
    if arguments.json:
        print(json.dumps({"floor": floor.parts["whole"].seconds, "rounds": [asdict(each) for each in rounds]}))
        return
    whole = floor.parts["whole"].seconds
    print(f"{machine()}: {arguments.inodes:,} inodes")
    print(f"floor {whole:.2f} s: md5sum, or {floor.way}")
    for each in rounds:
        uploads = ", ".join(f"{seconds:.2f} s until uploaded over {way}" for way, seconds in each.committed.items())
        print(
            f"checkpoint {each.checkpoint:.2f} s, {each.checkpoint / whole:.2f} x floor, {uploads}; "
            f"rebase {each.rebase:.2f} s; {each.tail:.1f} ms of CPU time for {_BATCH:,} transactions; "
            f"{each.memory >> 20} MiB",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
