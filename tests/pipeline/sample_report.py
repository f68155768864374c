"""A realistic report of a fictitious cluster, for tests of the page and for its screenshots."""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, datetime, timedelta

from pipeline.reports.counts.classes import AGE_LABELS, SIZE_LABELS
from pipeline.reports.model import (
    Bar,
    Bars,
    Bin,
    Histogram,
    NamespaceReport,
    Point,
    ReportColumn,
    ReportSection,
    ReportTable,
    Series,
    TimeLine,
    Treemap,
    TreemapNode,
)

TIB, GIB, MIB = 1 << 40, 1 << 30, 1 << 20
FILES = 46_339_584
GENERATED = datetime(2026, 3, 18, 6, 12, 40, tzinfo=UTC)

_TREE: dict[str, dict[str, tuple[float, tuple[str, ...]]]] = {
    "data": {
        "warehouse": (
            412,
            (
                *("sales_orders", "clickstream_hourly", "inventory_daily", "customer_360"),
                *("payments", "returns", "staging_tmp"),
            ),
        ),
        "raw": (268, ("kafka", "cdc_mysql", "sftp_inbound", "partner_feeds", "appsflyer")),
        "features": (97, ("embeddings_v3", "user_daily", "item_daily", "_tmp")),
        "archive": (143, ("2021", "2022", "2023", "2024")),
    },
    "user": {
        "hive": (61, ("warehouse", ".Trash", "scratch")),
        "etl": (44, ("checkpoints", "staging", "backfill_2025q4", ".Trash")),
        "m.okafor": (19, ("experiments", "notebooks", "exports")),
        "s.lindqvist": (12, ("ltv_model", "tmp")),
        "j.tanaka": (7, ("benchmarks", "parquet_dump")),
    },
    "logs": {
        "yarn": (71, ("etl", "hive", "spark-ml", "oozie")),
        "nginx": (38, ("edge-eu", "edge-us", "edge-ap")),
        "audit": (16, ("hdfs", "ranger")),
    },
    "hbase": {
        "data": (88, ("events", "profiles", "sessions", "counters")),
        "oldWALs": (5, ()),
        "archive": (13, ("events",)),
    },
    "apps": {"spark": (9, ("history", "jars")), "tez": (1.2, ()), "ml-platform": (26, ("models", "runs", "artifacts"))},
    "tmp": {"hive": (6, ()), "distcp-7f31": (4.1, ()), "presto": (2.4, ())},
}

_OWNERS = ("etl", "hive", "hbase", "kafka-connect", "spark-ml", "yarn", "m.okafor", "s.lindqvist", "airflow", "nobody")


def sample_report() -> NamespaceReport:
    """Return the report, which is always the same."""
    chance = random.Random(20260318)
    root = _tree(chance)
    return NamespaceReport(
        title="Namespace at transaction 18446130284",
        cluster="prod-fra1",
        image="/srv/checkpointer/name/current/fsimage_0000000018446130284",
        txid=18_446_130_284,
        image_time=datetime(2026, 3, 18, 5, 58, 3, tzinfo=UTC),
        generated=GENERATED,
        before="/srv/checkpointer/name/current/fsimage_0000000018397204411",
        edits="/srv/checkpointer/name/current",
        sections=(
            _space(chance, root),
            _owners(chance, root.value),
            _sizes(),
            _ages(),
            _small_files(chance),
            _growth(chance),
            _operations(chance),
            _snapshots(),
            _findings(),
        ),
    )


def _tree(chance: random.Random) -> TreemapNode:
    tops = []
    for top, second in _TREE.items():
        middle = []
        for name, (size, leaves) in second.items():
            total = int(size * TIB * chance.uniform(0.97, 1.03))
            shares = sorted((chance.uniform(0.15, 1) ** 2 for _ in leaves), reverse=True)
            scale = total * 0.96 / sum(shares) if shares else 0
            middle.append(
                TreemapNode(
                    name,
                    total,
                    tuple(_leaf(chance, leaf, int(scale * share)) for leaf, share in zip(leaves, shares, strict=True)),
                )
            )
        tops.append(_sum(top, middle, 0.004))
    return _sum("/", tops, 0.001)


def _leaf(chance: random.Random, name: str, size: int) -> TreemapNode:
    if size < 8 * TIB:
        return TreemapNode(name, size)
    months = [chance.uniform(0.6, 1.3) * 1.04**month for month in range(12)]
    parts = (
        TreemapNode(f"month=2025-{month + 1:02}", int(size * part / sum(months))) for month, part in enumerate(months)
    )
    return TreemapNode(name, size, tuple(sorted(parts, key=lambda node: -node.value)))


def _sum(name: str, parts: list[TreemapNode], rest: float) -> TreemapNode:
    total = sum(part.value for part in parts)
    return TreemapNode(name, int(total * (1 + rest)), tuple(sorted(parts, key=lambda node: -node.value)))


def _space(chance: random.Random, root: TreemapNode) -> ReportSection:
    tree, quotas = [], []
    room = itertools.cycle((1.31, 0.985, 1.9, 1.04, 1.6, 1.12, 2.4))
    for top in root.children:
        for node in (top, *top.children):
            path = f"/{top.name}" if node is top else f"/{top.name}/{node.name}"
            files = int(node.value / (chance.uniform(40, 240) * MIB))
            tree.append(
                (path, node.value, node.value * 10 // 28, files, files // 61 + 1, 100 * node.value / root.value)
            )
            if node is not top:
                quota = _round(node.value * next(room))
                quotas.append((path, quota, node.value, 100 * node.value / quota, files * 2, files // 2, 50.0))
    tree.sort(key=lambda row: -row[1])
    quotas.sort(key=lambda row: -row[3])
    heads = (
        ReportColumn("raw", "bytes", "Space with replicas"),
        ReportColumn("length", "bytes", "Size of files"),
        ReportColumn("files", "count", "Files"),
        ReportColumn("directories", "count", "Directories"),
    )
    levels = [(level, [row for row in quotas if row[3] >= 90 and (row[3] >= 100) == full]) for level, full in _LEVELS]
    totals = (root.value, root.value * 10 // 28, FILES, 1_203_312, 52_300_444, 14_402 * MIB)
    return ReportSection(
        "space",
        "Space by directory",
        "Content of directory trees.",
        tables=(
            ReportTable(
                "totals",
                "The whole namespace",
                (
                    *heads,
                    ReportColumn("blocks", "count", "Blocks"),
                    ReportColumn("heap", "bytes", "NameNode heap (approx.)"),
                ),
                (totals,),
            ),
            ReportTable(
                "directories",
                "Largest directories",
                (_PATH, *heads, ReportColumn("share", "percent", "Share of space")),
                tuple(tree),
            ),
            ReportTable(
                "quota_levels",
                "Quotas at their limits",
                _BY_LEVEL,
                tuple((level, len(rows), rows[0][0], "space", rows[0][3]) for level, rows in levels),
            ),
            ReportTable("quotas", "Quotas and their use, the fullest first", _QUOTAS, tuple(quotas)),
        ),
        charts=(Treemap("Space with replicas", root),),
        notes=("Space with replicas includes every replica; the section on snapshots covers other files.",),
    )


_PATH = ReportColumn("path", "path", "Directory")
_LEVELS = (("used up", True), ("nearly used up", False))
_BY_LEVEL = (
    ReportColumn("level", "text", "Level"),
    ReportColumn("quotas", "count", "Quotas"),
    _PATH,
    ReportColumn("kind", "text", "Quota of"),
    ReportColumn("used", "percent", "Used"),
)
_QUOTAS = (
    _PATH,
    ReportColumn("ds_quota", "bytes", "Space quota"),
    ReportColumn("raw", "bytes", "Space with replicas"),
    ReportColumn("space_used", "percent", "Used"),
    ReportColumn("ns_quota", "count", "Name quota"),
    ReportColumn("names", "count", "Names"),
    ReportColumn("names_used", "percent", "Used"),
)


def _round(value: float) -> int:
    return math.ceil(value / TIB) * TIB


def _owners(chance: random.Random, total: int) -> ReportSection:
    shares = sorted((chance.uniform(0.1, 1) ** 3 for _ in _OWNERS), reverse=True)
    sizes = [int(total * share / sum(shares)) for share in shares]
    columns = (
        ReportColumn("owner", "text", "Owner"),
        ReportColumn("space", "bytes", "Space"),
        ReportColumn("share", "percent", "Share"),
        ReportColumn("files", "count", "Files"),
        ReportColumn("last", "time", "Last write"),
    )
    rows = tuple(
        (
            name,
            size,
            100 * size / total,
            int(size / (chance.uniform(3, 70) * MIB)),
            GENERATED - timedelta(hours=chance.expovariate(0.01)),
        )
        for name, size in zip(_OWNERS, sizes, strict=True)
    )
    bars = tuple(Bar(name, size) for name, size in zip(_OWNERS, sizes, strict=True))
    return ReportSection(
        "owners",
        "Owners",
        "Owners and groups by space.",
        tables=(ReportTable("owners", "Owners", columns, rows),),
        charts=(Bars("Space by owner", bars, "bytes"), Bars("Space by storage policy", _POLICIES, "bytes")),
    )


_POLICIES = (
    Bar("HOT", 887 * TIB),
    Bar("COLD", 301 * TIB),
    Bar("WARM", 122 * TIB),
    Bar("ALL_SSD", 26 * TIB),
    Bar("ONE_SSD", 9 * TIB),
)


def _sizes() -> ReportSection:
    files = (412_331, 18_204_877, 9_118_204, 5_310_442, 3_877_120, 6_204_318, 2_914_772, 288_103, 9_417, 640, 11)
    space = (0, 290 * GIB, 3 * TIB, 21 * TIB, 74 * TIB, 498 * TIB, 561 * TIB, 155 * TIB, 62 * TIB, 18 * TIB, 15 * TIB)
    return ReportSection(
        "sizes",
        "File sizes",
        "The number of files of each size, and their space.",
        charts=(
            Histogram("Files by size", tuple(map(Bin, SIZE_LABELS, files))),
            Histogram("Space by size of file", tuple(map(Bin, SIZE_LABELS, space)), "bytes"),
        ),
    )


def _ages() -> ReportSection:
    space = tuple(size * TIB for size in (9, 41, 118, 226, 204, 241, 297, 183, 26))
    columns = (
        ReportColumn("path", "path", "Directory"),
        ReportColumn("cold", "bytes", "Cold space"),
        ReportColumn("part", "percent", "Share of space"),
        ReportColumn("files", "count", "Cold files"),
        ReportColumn("read", "time", "Last read"),
    )
    rows = (
        ("/data/archive/2021", 61 * TIB, 100.0, 1_204_331, datetime(2023, 11, 2, 4, 11, tzinfo=UTC)),
        ("/data/archive/2022", 44 * TIB, 98.7, 988_120, datetime(2024, 2, 19, 22, 40, tzinfo=UTC)),
        ("/user/etl/backfill_2025q4", 17 * TIB, 91.2, 402_118, datetime(2025, 1, 30, 9, 5, tzinfo=UTC)),
        ("/data/raw/partner_feeds", 13 * TIB, 38.4, 2_110_450, datetime(2024, 12, 24, 18, 0, tzinfo=UTC)),
        ("/user/m.okafor/experiments", 8 * TIB, 74.9, 61_077, None),
    )
    return ReportSection(
        "cold",
        "Cold data",
        "Space by the time since it was last used: the later of the last read and the last write.",
        tables=(
            ReportTable(
                "cold_by_directory", "Directories with the most cold space", columns, rows, "Not used for a year."
            ),
        ),
        charts=(Histogram("Space by last use", tuple(map(Bin, AGE_LABELS, space)), "bytes"),),
        notes=("Access times are kept to the hour (dfs.namenode.accesstime.precision), and not for directories.",),
    )


def _small_files(chance: random.Random) -> ReportSection:
    columns = (
        ReportColumn("path", "path", "Directory"),
        ReportColumn("owner", "text", "Owner"),
        ReportColumn("small", "count", "Small files"),
        ReportColumn("part", "percent", "Of its files"),
        ReportColumn("average", "bytes", "Average size"),
        ReportColumn("heap", "bytes", "Heap to save"),
    )
    places = [
        ("/data/raw/kafka/topic=web-events/dt=2026-03-17", "kafka-connect"),
        ("/logs/yarn/etl/logs-tfile", "yarn"),
        ("/user/hive/warehouse/clickstream.db/events/_delta", "hive"),
        ("/data/raw/appsflyer/in-app-events", "airflow"),
        ("/user/etl/checkpoints/orders-stream/state", "etl"),
        *((f"/data/raw/kafka/topic=web-events/dt=2026-03-{day:02}", "kafka-connect") for day in range(16, 1, -1)),
        ("/apps/ml-platform/runs/0f1c9a77/artifacts/<script>alert('x')</script>", "spark-ml"),
    ]
    counts = sorted((int(2_000_000 * chance.uniform(0.05, 1) ** 2) for _ in places), reverse=True)
    rows = tuple(
        (path, owner, count, chance.uniform(71, 100), int(chance.uniform(4, 900) * 1024), count * 290)
        for (path, owner), count in zip(places, counts, strict=True)
    )
    return ReportSection(
        "small-files",
        "Small files",
        "Files below an eighth of their block size, and where they come from.",
        tables=(
            ReportTable("small_files", "Small files in total", _SMALL, ((33_045_854, FILES, 4 * TIB, 9_812 * MIB),)),
            ReportTable("small_files_by_directory", "Directories with the most small files", columns, rows),
        ),
        charts=(
            Bars(
                "Small files by owner",
                (
                    Bar("kafka-connect", 17_410_233),
                    Bar("hive", 6_204_118),
                    Bar("yarn", 4_911_002),
                    Bar("etl", 2_730_441),
                    Bar("spark-ml", 918_377),
                ),
            ),
            Bars(
                "Small files made by",
                (
                    Bar("kafka-connect @ conn-07", 218_304),
                    Bar("hive @ hs2-02", 96_118),
                    Bar("etl @ gw-01", 40_227),
                    Bar("airflow @ af-3", 8_105),
                ),
            ),
        ),
    )


_SMALL = (
    ReportColumn("small_files", "count", "Small files"),
    ReportColumn("files", "count", "All files"),
    ReportColumn("small_length", "bytes", "Size of small files"),
    ReportColumn("saved_heap", "bytes", "Heap saved by merging, about"),
)


def _growth(chance: random.Random) -> ReportSection:
    columns = (
        ReportColumn("path", "path", "Directory"),
        ReportColumn("space", "bytes", "Change of space"),
        ReportColumn("files", "count", "Change of files"),
        ReportColumn("owner", "text", "Most by"),
    )
    changed = (
        ("/data/warehouse/clickstream_hourly", 6.4, 118_204, "hive"),
        ("/data/raw/kafka", 3.9, 1_402_331, "kafka-connect"),
        ("/user/etl/staging", 2.2, 40_118, "etl"),
        ("/hbase/data/events", 1.1, 318, "hbase"),
        ("/logs/yarn", 0.4, 96_004, "yarn"),
        ("/user/hive/.Trash", -1.7, -210_443, "hive"),
        ("/data/archive/2021", -4.8, -310_220, "etl"),
    )
    start = GENERATED.replace(hour=0, minute=0, second=0) - timedelta(days=27)
    level = 1301.0
    points = []
    for day in range(28):
        level += chance.uniform(-0.6, 2.6) - (6 if day == 19 else 0)
        points.append(Point(start + timedelta(days=day), int(level * TIB)))
    return ReportSection(
        "growth",
        "Growth",
        "What changed since the older image, and who changed it.",
        tables=(
            ReportTable(
                "growth_by_directory",
                "What grew and shrank",
                columns,
                tuple((path, int(size * TIB), count, owner) for path, size, count, owner in changed),
            ),
        ),
        charts=(
            TimeLine("Space of files", (Series("space", tuple(points)),), "bytes"),
            Bars("Change of space", tuple(Bar(path, int(size * TIB)) for path, size, _, _ in changed), "bytes"),
        ),
    )


def _operations(chance: random.Random) -> ReportSection:
    kinds = (
        ("OP_ADD", 9_400),
        ("OP_CLOSE", 9_200),
        ("OP_DELETE", 3_100),
        ("OP_RENAME", 2_700),
        ("OP_MKDIR", 1_200),
        ("OP_TIMES", 900),
        ("OP_SET_PERMISSIONS", 420),
        ("OP_SET_ACL", 60),
        ("OP_APPEND", 190),
    )
    start = GENERATED.replace(minute=0, second=0) - timedelta(hours=47)
    series = []
    for name, rate in kinds:
        points = []
        for hour in range(48):
            time = start + timedelta(hours=hour)
            daily = 1 + 0.55 * math.sin((time.hour - 8) / 24 * 2 * math.pi) + (1.9 if time.hour == 2 else 0)
            points.append(Point(time, int(rate * daily * chance.uniform(0.85, 1.15))))
        series.append(Series(name, tuple(points)))
    totals = sorted(
        ((line.name, sum(point.value for point in line.points)) for line in series), key=lambda pair: -pair[1]
    )
    columns = (
        ReportColumn("op", "text", "Operation"),
        ReportColumn("count", "count", "Transactions"),
        ReportColumn("part", "percent", "Share"),
    )
    whole = sum(count for _, count in totals)
    return ReportSection(
        "operations",
        "Operations",
        "The operations in the edits between the two images.",
        tables=(
            ReportTable(
                "operations",
                "Operations by type",
                columns,
                tuple((name, count, 100 * count / whole) for name, count in totals),
            ),
        ),
        charts=(TimeLine("Transactions by hour", tuple(series), step=3600),),
    )


_HELD = (
    ReportColumn("snapshots", "count", "Snapshots"),
    ReportColumn("raw", "bytes", "Space only in snapshots"),
    ReportColumn("current_raw", "bytes", "Space of the current tree"),
    ReportColumn("files", "count", "Files only in snapshots"),
)


def _snapshots() -> ReportSection:
    columns = (
        ReportColumn("path", "path", "Snapshottable directory"),
        ReportColumn("snapshots", "count", "Snapshots"),
        ReportColumn("held", "bytes", "Space held"),
        ReportColumn("oldest", "time", "Oldest"),
    )
    rows = (
        ("/data/warehouse", 31, 38 * TIB, datetime(2026, 2, 16, 1, 0, tzinfo=UTC)),
        ("/hbase", 8, 11 * TIB, datetime(2026, 3, 10, 3, 30, tzinfo=UTC)),
        ("/user/m.okafor/experiments", 2, 4 * TIB, datetime(2024, 6, 7, 14, 22, tzinfo=UTC)),
    )
    return ReportSection(
        "snapshots",
        "Snapshots",
        "Space that only snapshots hold.",
        tables=(
            ReportTable("snapshots", "Snapshots in total", _HELD, ((41, 53 * TIB, 1345 * TIB, 1_902_118),)),
            ReportTable("snapshots_by_directory", "By snapshottable directory", columns, rows),
        ),
    )


def _findings() -> ReportSection:
    return ReportSection("findings", "Corruption", "The image is valid: 0 errors, 0 warnings, 0 infos.")


def hostile_report() -> NamespaceReport:
    """Return a report whose strings are all markup, which would run if unescaped."""
    evil = "/a/</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;{{ 7 * 7 }}<!--"
    kinds = (
        ReportColumn("path", "path", evil),
        ReportColumn("owner", "text", evil),
        ReportColumn("size", "bytes", evil),
    )
    charts = (
        Treemap(evil, TreemapNode(evil, 9, (TreemapNode(evil, 5, (TreemapNode(evil, 3),)), TreemapNode("plain", 3)))),
        Histogram(evil, (Bin(evil, 3), Bin("plain", 0))),
        Bars(evil, (Bar(evil, 3), Bar("", -2)), "bytes"),
        TimeLine(evil, (Series(evil, (Point(GENERATED, 4),)), Series("plain", (Point(GENERATED, 2),))), step=3600),
    )
    table = ReportTable("names", evil, kinds, ((evil, evil, 7), (None, None, None)), evil)
    totals = ReportTable("totals", evil, (ReportColumn("raw", "bytes", evil),), ((5,),))
    sections = (ReportSection("names", evil, evil, (table, totals), charts, (evil, evil)),)
    return NamespaceReport(evil, evil, 7, GENERATED, GENERATED, sections, before=evil, edits=evil)
