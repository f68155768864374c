"""Every merged image of Hadoop's recordings: a NameNode loads it, saves it unchanged, and Hadoop's viewer prints it."""

from __future__ import annotations

import gzip
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.healing import HealingMode
from engine.settings import MergeSettings
from hadoop_common.configuration import Configuration
from image_format.codecs import find_codec
from image_format.errors import UnsupportedConversionError
from image_format.publish import publish_image
from image_format.reader import ImageFile
from image_format.writer import ImageWriter, Sink
from image_tools.compare.comparison import ImageComparison
from site_config.merge_settings import replay_rules
from tests.bench.made import make
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.interop.hadoop_home import SERVER
from tests.interop.oiv import deleted_blocks, items
from tests.recorded_cases import RECORDED, Case, all_cases, imgcmp

pytestmark = [pytest.mark.interop, pytest.mark.recorded]

CASES = [case for case in all_cases() if case.path.parent.name == SERVER.recorded]
# recordings of Hadoop 3.4.1 are merged into the layout of these servers
LAYOUT = SERVER.layout if SERVER.is_3 else None
loads_recorded = pytest.mark.skipif(SERVER.layout == -66, reason="the recorded images are of a newer layout")
CODEC = "org.apache.hadoop.io.compress."
# changes that a NameNode makes in any image, even in its own, by loading and saving the image:
LOST_AT_LOAD = (
    # the start of a rolling upgrade is lost if no fsimage_rollback is next to the image
    re.compile(r"NS_INFO field 7: expected \d+ got 0"),
    # a directory that only has storage type quotas receives the largest namespace quota instead of none
    re.compile(r"(?:inodes|snaps) \d+ dir\.nsq: expected 18446744073709551615 got 9223372036854775807"),
    # a Hadoop 3 NameNode saves a lease of every open file of the namespace
    *([re.compile(r"uc: expected .*")] if SERVER.is_3 else []),
)

# These releases save missing names and inodes in snapshot diffs (a bug), and then cannot load the image.
UNLOADABLE = {
    "hadoop-2.7.3": {
        *("random-mixed-1", "random-mixed-551376", "random-snapshot-1", "random-snapshot-11048"),
        *("random-snapshot-11090", "random-snapshot-2", "random-snapshot-410001", "random-snapshot-551343"),
        *("symlinks", "truncate-append-concat"),
    },
    "hadoop-3.4.1": {
        *("held-random-8", "held-random-9", "r-snapshot-sub-770036", "random-capture-6", "random-mixed-70110"),
        *("random-mixed-sub-70127", "random-snapshot-3", "random-snapshot-70121", "random-snapshot-70122"),
        *("random-snapshot-770012", "random-snapshot-770101", "random-snapshot-sub-70124"),
        *("random-snapshot-sub-9108", "symlinks", "upgrade-from-2.7.3"),
    },
}[SERVER.recorded]

# Created lists of Hadoop's image are unsorted; in the first case, Hadoop did not find a name in such a list.
OUT_OF_ORDER = {"random-snapshot-551343", "random-snapshot-capture-881412"}

# The NameNode of a rolling upgrade writes its old layout; our image is at the layout of the servers.
OLD_LAYOUT = {"rolling-upgrade-from-2.7.3"}

# recordings without a loadable Hadoop checkpoint; tests/engine/test_healing.py lists the repairs in our image
NO_CHECKPOINT = sorted(path.name for path in (RECORDED / "no-checkpoint").glob("snapshot-*"))

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.name)


def merged(case: Case, folder: Path, codec: str | None = None, healing: HealingMode = HealingMode.HEAL) -> Path:
    case.copy_to(folder)
    rules = replay_rules(Configuration.load(case.write_configuration(folder / "conf"), environment={}))
    settings = MergeSettings(codec=codec, layout_version=LAYOUT, rules=replace(rules, healing=healing))
    try:
        return merge_directory(plan_directory(folder), settings).saved.paths[0]
    except UnsupportedConversionError as error:
        if SERVER.layout != -66:
            raise
        pytest.skip(error.message)


def load_and_save(hadoop: Hadoop, case: Case, image: Path) -> Path:
    return hadoop.load_and_save(image, case.path / "before" / "VERSION")


def differences(expected: Path, actual: Path, clock: object = None) -> list[str]:
    found: list[str] = imgcmp.compare(imgcmp.Image(str(expected)), imgcmp.Image(str(actual)), clock=clock)
    return found


def without_default_quotas(path: Path) -> Any:
    """Return an image without the quotas of 0 that a loader adds to a directory's copy for each storage type."""
    image = imgcmp.Image(str(path))
    for (kind, _), diffs in image.diffs.items():
        for diff in diffs if kind == 2 else ():
            if diff["copy"] and not any(quota for _, quota in diff["copy"].get("typeq", ())):
                diff["copy"].pop("typeq", None)
    return image


def lost(hadoop: Hadoop, case: Case, image: Path) -> list[str]:
    """Return the changes that a NameNode makes by loading and saving an image, except changes that it makes in any
    image.
    """
    found = imgcmp.compare(*map(without_default_quotas, (image, load_and_save(hadoop, case, image))))
    return [line for line in found if not any(known.fullmatch(line) for known in LOST_AT_LOAD)]


def nearest(case: Case, image: Path) -> Path:
    """Return the correct image, which `image` must equal."""
    clock = imgcmp.Clock(case.edits_xml)
    return min(case.expected_images(), key=lambda path: len(differences(path, image, clock)))


def shown(hadoop: Hadoop, case: Case, image: Path) -> list[str]:
    """Return the differences between OfflineImageViewer's output for the merged and for the correct image."""
    clock, right = imgcmp.Clock(case.edits_xml), nearest(case, image)
    nowhere = [
        (directory, name.decode()) for directory, _, names in imgcmp.Image(str(right)).dangling for name in names
    ]
    if right.parent.name == "after" and not SERVER.is_3:
        text = gzip.decompress((case.path / "oiv_after.xml.gz").read_bytes()).decode(errors="surrogateescape")
    else:
        text = hadoop.view_image(right)
    deleted = deleted_blocks(text)
    expected, ours = (items(each, clock, nowhere, deleted) for each in (text, hadoop.view_image(image)))
    return sorted((expected - ours) + (ours - expected))


@pytest.mark.parametrize("name", NO_CHECKPOINT)
def test_a_namenode_loads_our_merge_where_hadoops_own_fails(hadoop: Hadoop, name: str, tmp_path: Path) -> None:
    current = RECORDED / "no-checkpoint" / name / "current"
    shutil.copytree(current, tmp_path / "current")
    made = merge_directory(plan_directory(tmp_path), MergeSettings(layout_version=LAYOUT))
    hadoop.load_and_save(made.saved.paths[0], current / "VERSION")


@pytest.mark.both_generations
@every_case
def test_a_namenode_loads_and_saves_our_merge_unchanged(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    assert lost(hadoop, case, merged(case, tmp_path)) == []


@loads_recorded
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.path.name in UNLOADABLE], ids=lambda case: case.path.name
)
def test_without_healing_a_namenode_refuses_the_image(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    for image in (merged(case, tmp_path, healing=HealingMode.AS_HADOOP), case.image("after")):
        with pytest.raises(HadoopRefusedError):
            load_and_save(hadoop, case, image)


@loads_recorded
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.path.name not in UNLOADABLE], ids=lambda case: case.path.name
)
def test_a_namenode_saves_our_image_and_hadoops_identically(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    image = merged(case, tmp_path)
    ours, hadoops = (load_and_save(hadoop, case, path) for path in (image, nearest(case, image)))
    assert differences(hadoops, ours, imgcmp.Clock(case.edits_xml)) == []


@loads_recorded
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.path.name not in OUT_OF_ORDER | OLD_LAYOUT], ids=lambda case: case.path.name
)
def test_the_viewer_prints_our_merge_like_the_recording(hadoop: Hadoop, case: Case, tmp_path: Path) -> None:
    """The viewer shows Hadoop's faults in an image that NameNodes cannot load, so our merge does not heal these faults
    in this test.
    """
    healing = HealingMode.AS_HADOOP if case.path.name in UNLOADABLE else HealingMode.HEAL
    assert shown(hadoop, case, merged(case, tmp_path, healing=healing)) == []


@pytest.mark.parametrize("codec", ["DefaultCodec", "GzipCodec", "BZip2Codec"])
@pytest.mark.parametrize(
    "name", ["compress-gzip", "medium-50k" if SERVER.is_3 else "medium-20k", "open-files-leases", "strings"]
)
def test_hadoop_reads_compressed_images(hadoop: Hadoop, name: str, codec: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.path.name == name)
    image = merged(case, tmp_path, CODEC + codec)
    assert CODEC.encode() + codec.encode() in image.read_bytes()
    assert lost(hadoop, case, image) == []
    if SERVER.layout == -66:
        # the viewer of these servers does not print the recorded image
        assert hadoop.view_image(image)
    else:
        assert shown(hadoop, case, image) == []


def packed(source: Path, folder: Path, codec: str, streams: int) -> Path:
    """Return the image with another codec, and with INODE and INODE_DIR in `streams` streams without sub-sections."""
    folder.mkdir()
    target = folder / source.name
    with ImageFile.open(source, verify_md5=False) as image:

        def write(sink: Sink) -> None:
            writer = ImageWriter(sink, image.layout_version, CODEC + codec, template=image.summary, threads=2)
            for entry in image.sections:
                content = image.section_bytes(entry.name)
                parts = streams if entry.name.startswith("INODE") else 1
                bounds = [len(content) * part // parts for part in range(parts + 1)]
                stored = bytearray()
                for start, end in pairwise(bounds):
                    stream = find_codec(CODEC + codec).compressor(2)
                    stored += bytes(stream.compress(content[start:end])) + stream.finish()
                writer.copy_section(entry.name, bytes(stored))
            writer.finish()

        publish_image(target, write, image.check_whole)
    return target


@pytest.mark.parametrize(
    ("codec", "streams"),
    [
        ("DefaultCodec", 1),
        ("GzipCodec", 1),
        pytest.param("BZip2Codec", 1, marks=pytest.mark.deep),
        ("DefaultCodec", 3),
        ("GzipCodec", 3),
    ],
)
def test_hadoop_reads_sections_of_many_pieces_and_streams(
    hadoop: Hadoop, codec: str, streams: int, tmp_path: Path
) -> None:
    """A loader without parallel loading reads a section's streams one after the other; the BZip2 codec of Hadoop 2.7
    cannot do this.
    """
    base = make(tmp_path / "base", snapshots=True, inodes=50_000, layout=SERVER.layout)
    image = packed(base.path, tmp_path / "packed", codec, streams)
    saved = hadoop.load_and_save(image, base.path.parent / "VERSION")
    with ImageFile.open(base.path) as plain, ImageFile.open(saved, verify_md5=False) as theirs:
        assert plain.section_bytes("INODE").nbytes > 4 << 20
        assert list(ImageComparison(plain, theirs).differences()) == []


def test_a_damaged_image_is_refused(hadoop: Hadoop, tmp_path: Path) -> None:
    """A NameNode can serve as the oracle, because it refuses a damaged image."""
    case = next(case for case in CASES if case.path.name == "renames")
    image = merged(case, tmp_path)
    content = bytearray(image.read_bytes())
    content[len(content) // 2] ^= 0xFF
    image.write_bytes(content)
    with pytest.raises(HadoopRefusedError, match="Failed to load FSImage file"):
        load_and_save(hadoop, case, image)
