"""Every number in a headline, compared with sums in plain Python over the generated namespace."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hadoop_common.cli.progress import ProgressObserver
from image_format.proto import fsimage_pb2 as pb
from journal.ops import PermissionStatus
from pipeline.reports.build import make_report
from pipeline.reports.counts.tree import HEAP_BYTES
from pipeline.reports.headline import ValueFormatter, headline
from pipeline.reports.html import render
from pipeline.reports.html.values import cell_text as page_text
from pipeline.reports.model import NamespaceReport, as_json
from pipeline.reports.model import cell_text as plain_text
from pipeline.reports.request import ReportOptions, ReportRequest
from pipeline.reports.writers.prometheus import metrics_text
from pipeline.reports.writers.terminal import report_lines, summary_lines
from tests.engine.image_builder import ROOT, ImageBuilder, delimited
from tests.pipeline.report_frames import samples_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

AS_OF = datetime(2027, 1, 1, tzinfo=UTC)
OWNERS = [f"user{number:02}" for number in range(45)]
COLD_DAYS, SMALL, TOP, BLOCK = 200, 3000, 4, 128 << 10
SECTIONS = ("space", "owners", "small-files", "cold", "growth", "snapshots")


@dataclass
class _File:
    path: str
    owner: str
    sizes: list[int]
    replication: int
    used: datetime

    @property
    def length(self) -> int:
        return sum(self.sizes)

    @property
    def raw(self) -> int:
        return self.length * self.replication

    @property
    def small(self) -> bool:
        return self.length < SMALL


@dataclass
class _Namespace:
    """Files, directories (path to name and space quota), and the sizes of files that exist only in a snapshot."""

    files: list[_File] = field(default_factory=list)
    directories: dict[str, tuple[int, int]] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)

    def below(self, path: str) -> tuple[int, int]:
        """Return the number of names and the raw space of a directory, itself included."""
        prefix = path.rstrip("/") + "/"
        files = [file for file in self.files if file.path.startswith(prefix)]
        folders = sum(other.startswith(prefix) for other in self.directories)
        return 1 + len(files) + folders, sum(file.raw for file in files)


def _random_namespace(chance: random.Random) -> _Namespace:
    made = _Namespace()
    for number in range(70):
        above = chance.choice(["", *made.directories]) if number > 8 else ""
        made.directories[f"{above}/d{number}"] = (-1, -1)
    for number in range(500):
        sizes = [chance.choice([0, 900, 2000, 5000, BLOCK]) for _ in range(chance.randint(0, 3))]
        used = AS_OF - timedelta(days=chance.choice([1, 100, 199, 201, 800]))
        path = f"{chance.choice(list(made.directories))}/f{number}"
        made.files.append(_File(path, chance.choice(OWNERS), sizes, chance.choice([1, 2, 3, 10]), used))
    for path in chance.sample(list(made.directories), 40):
        names, raw = made.below(path)
        made.directories[path] = (_quota(chance, names), _quota(chance, raw))
    made.held = [chance.randrange(1, 9 * BLOCK) for _ in range(chance.choice([0, 60]))]
    return made


def _quota(chance: random.Random, used: int) -> int:
    """Choose no limit, or a limit that is exceeded, met, nearly met or far from being met."""
    return chance.choice([-1, max(1, used - 1), max(1, used), max(1, used * 10 // 9), used * 2 + 5])


def _save(made: _Namespace, folder: Path, txid: int) -> Path:
    builder = ImageBuilder()
    builder.info.transactionId = txid
    for path, quotas in made.directories.items():
        inode = builder.directory(path).directory
        inode.nsQuota, inode.dsQuota = (quota % (1 << 64) for quota in quotas)
    block = iter(range(1 << 30, 1 << 31))
    for each in made.files:
        inode_file = builder.file(each.path, blocks=[(next(block), size, 1001) for size in each.sizes]).file
        inode_file.replication, inode_file.preferredBlockSize = each.replication, BLOCK
        inode_file.permission = builder.permission(PermissionStatus(each.owner, "users", 0o644))
        inode_file.modificationTime = int(each.used.timestamp() * 1000)
        inode_file.accessTime = inode_file.modificationTime - 1000
    for number, size in enumerate(made.held):
        builder.file(f"held{number}", blocks=[(next(block), size, 1001)])
    root = pb.INode(id=ROOT, type=pb.INode.DIRECTORY)
    root.directory.permission = builder.permission()
    header = pb.SnapshotSection(snapshotCounter=1, numSnapshots=1, snapshottableDir=[ROOT])
    builder.sections["SNAPSHOT"] = delimited([header, pb.Snapshot(snapshotId=0, root=root)])
    diff = pb.DirectoryDiff(snapshotId=0, isSnapshotRoot=True, childrenSize=0)
    entry = pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ROOT, numOfDiff=1)
    builder.sections["SNAPSHOT_DIFF"] = delimited([entry, diff])
    return builder.save(folder)


def _expected(before: _Namespace, after: _Namespace, say: ValueFormatter) -> list[tuple[str, str]]:
    """Return the section and the text of each expected finding."""
    raw = sum(file.raw for file in after.files)
    found = [*_expected_quotas(after, say)]
    small = [file for file in after.files if file.small]
    if len(small) * 2 >= len(after.files):
        part = say(100 * len(small) / len(after.files), "percent")
        noun = "file is" if len(small) == 1 else "files are"
        text = f"{say(len(small), 'count')} {noun} small, {part} of all; merging them would free about "
        found.append(("small-files", f"{text}{say(_saved_heap(small), 'bytes')} of NameNode heap."))
    cold = sum(file.raw for file in after.files if file.used <= AS_OF - timedelta(days=COLD_DAYS))
    if cold * 4 >= raw:
        found.append(("cold", f"{say(cold, 'bytes')} are cold, {say(100 * cold / raw, 'percent')} of all space."))
    held = 3 * sum(after.held)
    if held * 10 >= raw:
        much = f"{say(100 * held / raw, 'percent')} of the space of the current tree"
        found.append(("snapshots", f"Snapshots alone keep {say(held, 'bytes')}, {much}."))
    earlier = sum(file.raw for file in before.files)
    if (raw - earlier) * 20 >= earlier:
        part = say(100 * (raw - earlier) / earlier, "percent")
        found.append(("growth", f"Space grew by {say(raw - earlier, 'bytes')}, {part} of the earlier space."))
    return found


def _expected_quotas(made: _Namespace, say: ValueFormatter) -> list[tuple[str, str]]:
    used = []
    for path, quotas in made.directories.items():
        pairs = zip(("name", "space"), made.below(path), quotas, strict=True)
        used += [(part, limit, path, kind) for kind, part, limit in pairs if limit > 0]
    full = [row for row in used if row[0] >= row[1]]
    nearly = [row for row in used if row[0] < row[1] and row[0] * 10 >= row[1] * 9]
    found = []
    for rows, level in ((full, "used up"), (nearly, "nearly used up")):
        if rows:
            part, limit, path, kind = min(rows, key=lambda row: (-row[0] / row[1], row[2], row[3]))
            most = f"{path} has used {say(round(100 * part / limit, 2), 'percent')} of its {kind} quota."
            many = f"{say(len(rows), 'count')} quotas are {level}; "
            found.append(("space", most if len(rows) == 1 else many + most))
    return found


def _saved_heap(small: list[_File]) -> int:
    """Return the heap saved by merging the small files of an owner in a directory into one file per full block."""
    groups: dict[tuple[str, str], list[_File]] = defaultdict(list)
    for file in small:
        groups[file.path.rpartition("/")[0], file.owner].append(file)
    saved = 0
    for files in groups.values():
        left = max(1, -(-sum(file.length for file in files) // BLOCK))
        saved += max(0, len(files) - left) + max(0, sum(len(file.sizes) for file in files) - left)
    return saved * HEAP_BYTES


def _made(spark: SparkSession, folder: Path, before: _Namespace, after: _Namespace) -> NamespaceReport:
    images = [_save(made, folder / str(txid), txid) for made, txid in ((before, 100), (after, 200))]
    options = ReportOptions(AS_OF, top=TOP, small=SMALL, cold_days=COLD_DAYS, only=SECTIONS)
    request = ReportRequest(str(images[1]), (str(images[0]),))
    return make_report(
        spark.sparkContext, request, lambda _: options, generated=AS_OF, progress=ProgressObserver(show=False)
    )


@pytest.mark.parameters(1)
@pytest.mark.parametrize("seed", range(6))
def test_headline_numbers_equal_plain_sums(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    after = _random_namespace(chance)
    before = _Namespace(chance.sample(after.files, 400), after.directories, after.held)
    report = _made(spark, tmp_path, before, after)
    for say in (plain_text, page_text):
        found = headline(report, say)
        assert sorted((each.section, each.text) for each in found.findings) == sorted(_expected(before, after, say))
        assert {fact.title: fact.value for fact in found.facts} == _expected_facts(after)
        earlier, later = _expected_facts(before), _expected_facts(after)
        changes = {fact.title.removesuffix(", change"): fact.value for fact in found.changes}
        assert (changes.pop("Before"), changes.pop("After")) == tuple(_raw(each) for each in (before, after))
        assert changes == {title: later[title] - earlier[title] for title in changes}

    metrics = {sample.name: sample.value for sample in samples_of(metrics_text(report)) if not sample.labels["cluster"]}
    assert metrics["hdfs_report_files"] == len(after.files)
    assert metrics["hdfs_report_raw_bytes"] == _raw(after)
    assert metrics["hdfs_report_growth_raw_bytes"] == _raw(after) - _raw(before)
    assert metrics["hdfs_report_small_files_small_files"] == sum(file.small for file in after.files)
    page = render(report).replace("<wbr>", "").replace("&#39;", "'")
    for section, text in _expected(before, after, page_text):
        assert text in page, section
    lines = list(summary_lines(report, None))
    assert list(report_lines(report, None))[: len(lines)] == lines
    for section, text in _expected(before, after, plain_text):
        assert any(line.endswith(f"{text} ({section})") for line in lines), (text, lines)
    _check_tables(report, after)


def _raw(made: _Namespace) -> int:
    return sum(file.raw for file in made.files)


def _expected_facts(made: _Namespace) -> dict[str, Any]:
    blocks = sum(len(file.sizes) for file in made.files)
    inodes = 1 + len(made.files) + len(made.directories)
    return {
        "Space with replicas": sum(file.raw for file in made.files),
        "Size of files": sum(file.length for file in made.files),
        "Files": len(made.files),
        "Directories": len(made.directories),
        "Blocks": blocks,
        "Symlinks": 0,
        "NameNode heap (approx.)": HEAP_BYTES * (inodes + blocks),
    }


def _check_tables(report: NamespaceReport, made: _Namespace) -> None:
    """Check that every output marks a table that shows only its first rows."""
    content = json.loads(json.dumps(as_json(report)))
    tables = {table["name"]: table for section in content["sections"] for table in section["tables"]}
    owners = len({file.owner for file in made.files} | {"hdfs"})
    assert owners > TOP
    for name in ("by_owner", "cold_by_owner", "small_files_by_owner", "growth_by_owner", "directories", "quotas"):
        assert (len(tables[name]["rows"]), tables[name]["cut"]) == (TOP, True), name
        assert f"Only the first {TOP}" in tables[name]["text"]
    assert not any(tables[name]["cut"] for name in ("totals", "quota_levels", "small_files", "cold", "growth"))
