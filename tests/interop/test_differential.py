"""Random operations on a real NameNode: our merge of image and edits, compared with the SecondaryNameNode's merge.

`make differential SEEDS=200 MODES="snapshot mixed files"` runs more cases; SEED=2 runs other cases, and RELEASE=3.4.2
uses that release. `+slices`, `+zones`, `+sm4` or `+locks` after a mode, as in `mixed+sm4`, configure the NameNode
(`RandomRecorder.java`). These rules explain all permitted differences:

1. Times that Hadoop takes from its clock during replay, lengths of blocks that it marks as deleted, and symlinks whose
   records it loses: see imgcmp.
2. If Hadoop cannot load its image or replay its edits, it makes no checkpoint. Our merge may then name the damage and
   stop. If our merge makes an image, a NameNode must load this image.
3. If no NameNode loads Hadoop's image, our image may equal that image.
4. An error that `image verify` finds in our image is also in Hadoop's image, such as an unreachable inode. If Hadoop
   makes no image, the error is in the image from which it started.
5. If `image verify` finds an error in the snapshots of Hadoop's image, our merge heals the error: our image equals
    Hadoop's image after a repair.
6. A created list of Hadoop may be out of order, for example after the rename of a symlink. Hadoop then does not find
   other names in this list, and records later renames wrongly. Created names of that directory may differ.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import image_name
from image_format.md5_file import md5_of_file, write_md5_file
from image_format.reader import ImageFile
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from image_tools.verify.snapshot_repair import repair_snapshots
from journal.segment_file import list_segments
from tests.cli_runner import run_cli
from tests.depth import SEED, scaled
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.interop.recorder import Recorder, Recording, images, storage_before
from tests.recorded_cases import imgcmp

pytestmark = [pytest.mark.interop]

STEPS = 600
FIRST = 10_000 * SEED
SEEDS = range(FIRST, FIRST + int(os.environ.get("SEEDS", scaled(100, quick=1))))
MODES = [mode for mode in os.environ.get("MODES", "snapshot mixed").split() if mode != "crafted"]


@pytest.fixture(scope="module")
def recorder(hadoop: Hadoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    with Recorder(tmp_path_factory.mktemp("recorder")) as running:
        yield running


def merged(storage: Path) -> Path | HdfsError:
    """Return the image of our merge, or the merge's error."""
    try:
        return merge_directory(plan_directory(storage)).saved.paths[0]
    except HdfsError as error:
        return error


def loads(hadoop: Hadoop, image: Path, recording: Recording) -> bool:
    """Return whether a NameNode loads an image and saves it again."""
    try:
        hadoop.load_and_save(image, recording.current / "VERSION")
    except HadoopRefusedError:
        return False
    return True


def replayed(hadoop: Hadoop, storage: Path) -> Path | None:
    """Return the image that a NameNode makes of a storage directory; None if it cannot load the directory."""
    copy = storage.with_name("replayed")
    shutil.copytree(storage, copy)
    try:
        image = hadoop.replay_and_save(copy)
    except HadoopRefusedError:
        return None
    write_md5_file(image, md5_of_file(image))
    return image


def errors(image: Path) -> set[str]:
    """Return the codes of the errors that `image verify` finds."""
    return {found.code for found in verify_image(image).findings.listed if found.severity is Severity.ERROR}


def repaired(theirs: Path, folder: Path) -> Path:
    """Return Hadoop's image, repaired by rule 5."""
    if errors(theirs) <= {"inode-unreachable"}:
        return theirs
    image, _ = repair_snapshots(ImageFile.open(theirs))
    copy = folder / theirs.name
    with image:
        copy.write_bytes(image.file_bytes())
    return copy


def differences(theirs: Path, ours: Path, storage: Path) -> list[str]:
    """Return the differences that rules 1, 5 and 6 do not explain."""
    (segment,) = list_segments(storage / "current")
    xml = storage / "edits.xml"
    assert run_cli("edits", "dump", segment.path, "--format", "xml", "--output", xml).code == 0
    findings = verify_image(theirs).findings.listed
    disordered = {found.inode for found in findings if found.code == "diff-created-order"}
    sides = [imgcmp.Image(str(path)) for path in (repaired(theirs, storage), ours)]
    for side in sides:
        for (_, inode_id), diffs in side.diffs.items():
            if inode_id in disordered:
                for diff in diffs:
                    diff["created"] = ()
    found: list[str] = imgcmp.compare(*sides, clock=imgcmp.Clock(str(xml)))
    return found


@pytest.mark.both_generations
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", MODES)
def test_our_merge_equals_hadoops_checkpoint(
    hadoop: Hadoop, recorder: Recorder, mode: str, seed: int, tmp_path: Path
) -> None:
    recording = recorder.record(mode, seed, STEPS)
    storage, txid = storage_before(recording, tmp_path / "storage")
    theirs = recording.checkpoint / image_name(txid)
    assert theirs.exists() == (not recording.refusal)
    if theirs.exists():
        # The SecondaryNameNode always assumes that an upgrade is not finalized, so it replays truncates as copies.
        theirs = replayed(hadoop, storage) or theirs
    ours = merged(storage)
    if isinstance(ours, HdfsError):
        assert recording.refusal, f"Hadoop makes a checkpoint of {storage}: {ours}"
        assert ours.exit_code in (ExitCode.BAD_EDITS, ExitCode.BAD_IMAGE), ours
        return
    assert ours.name == image_name(txid)
    assert loads(hadoop, ours, recording), storage
    if theirs.exists() and loads(hadoop, theirs, recording):
        assert differences(theirs, ours, storage) == [], storage
    base = min(images(storage / "current"))
    known = theirs if theirs.exists() else storage / "current" / image_name(base)
    assert errors(ours) <= errors(known), storage
    shutil.rmtree(recording.current.parent.parent)
