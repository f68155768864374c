"""Records a case for `tests/recorded`: random work on a real NameNode, and the output of Hadoop's tools.

python -m tests.tools.record_case NAME --mode MODE --seed SEED --steps STEPS

The case is `tests/recorded/hadoop-RELEASE/NAME`; CHECKPOINTER_TEST_HADOOP chooses the release. MODE is a mode of
`RandomWork.java` (`snapshot`, `mixed`), optionally with `+` and a configuration of `RandomRecorder.java`. A NameNode
writes the image and the edits, a SecondaryNameNode writes the new image, and the two offline viewers write the XML.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hadoop_common.names import image_name
from hadoop_common.storage_info import read_version
from image_format.md5_file import md5_of_file, write_md5_file
from journal.segment_file import list_segments
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_jars import MissingHadoopError
from tests.interop.recorder import Recorder, Recording, images, storage_before
from tests.recorded_cases import RECORDED, imgcmp

_STEPS = 600
_OPCODE = re.compile(rb"<OPCODE>OP_(\w+)</OPCODE>")
_SECONDARY = "SecondaryNameNode.doCheckpoint: image N and the edits fetched from the NameNode, replayed, saved"
_BLOCKS = "blocks through ClientProtocol and DatanodeProtocol with DataNodes that keep lengths only"


class NotRecordedError(Exception):
    """A recording from which Hadoop made no checkpoint, or with files that Hadoop cannot read; the message gives the
    reason.
    """


def record_case(name: str, mode: str, seed: int, steps: int, folder: Path) -> Path:
    """Record a case and return its folder, `folder/NAME`, which must not exist.

    Raises:
        NotRecordedError: this seed yields no case; nothing is left in `folder`.
        MissingHadoopError: Java, the jars or the compiled programs are missing.
    """
    with tempfile.TemporaryDirectory(prefix="record-") as work:
        place, case = Path(work), Path(work) / name
        case.mkdir()
        for each in ("recorder", "hadoop"):
            (place / each).mkdir()
        with Recorder(place / "recorder") as recorder, Hadoop(place / "hadoop") as hadoop:
            recording = recorder.record(mode, seed, steps)
            if recording.refusal:
                raise NotRecordedError(f"the SecondaryNameNode made no checkpoint: {recording.refusal}")
            try:
                facts = _write(hadoop, recording, case)
            except HadoopRefusedError as error:
                raise NotRecordedError(f"Hadoop does not read its own files: {error}") from error
        known = {"name": name, "seed": seed, "mode": mode, "nops": steps, "hadoop": SERVER.version}
        (case / "case.json").write_text(json.dumps({**known, **facts}, indent=2) + "\n")
        return Path(shutil.copytree(case, folder / name))


def _write(hadoop: Hadoop, recording: Recording, case: Path) -> dict[str, Any]:
    """Write the case's files and return the content of case.json."""
    storage, txid = storage_before(recording, case.with_name("storage"))
    (storage / "current").rename(case / "before")
    before, after = case / "before", case / "after"
    base = min(images(before))
    _place(recording.checkpoint / image_name(txid), after)
    edits = b"".join(hadoop.view_edits(segment.path) for segment in list_segments(before))
    _compress(case / "edits.xml.gz", edits)
    for part, image in (("before", before / image_name(base)), ("after", after / image_name(txid))):
        _compress(case / f"oiv_{part}.xml.gz", hadoop.view_image(image).encode("utf-8", "surrogateescape"))
    copy = storage / "current"
    shutil.copytree(before, copy)
    reloaded = hadoop.replay_and_save(storage)
    theirs, own = (imgcmp.Image(str(path)) for path in (after / image_name(txid), reloaded))
    equal = not imgcmp.compare(theirs, own, clock=imgcmp.Clock(str(case / "edits.xml.gz")))
    if not equal:
        _place(reloaded, case / "after_nn", image_name(txid))
    return {
        "layoutVersion": read_version(before / "VERSION").layout_version,
        "txid_before": base,
        "txid_after": txid,
        "segments": len(list_segments(before)),
        "ops": dict(sorted(Counter(found.decode() for found in _OPCODE.findall(edits)).items())),
        "after_by": _SECONDARY,
        "reload_equal": equal,
        "notes": [_BLOCKS],
    }


def _place(image: Path, folder: Path, name: str = "") -> None:
    """Copy an image with its digest into a new folder."""
    folder.mkdir()
    target = folder / (name or image.name)
    shutil.copy(image, target)
    write_md5_file(target, md5_of_file(target))


def _compress(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


def main() -> int:
    """Record the case that the command line describes; return 1 if no case was recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.record_case", description=__doc__)
    parser.add_argument("name", help="of the case's folder")
    parser.add_argument("--mode", default="mixed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=_STEPS)
    parser.add_argument("--folder", type=Path, default=RECORDED / f"hadoop-{SERVER.version}")
    chosen = parser.parse_args()
    try:
        case = record_case(chosen.name, chosen.mode, chosen.seed, chosen.steps, chosen.folder)
    except (NotRecordedError, MissingHadoopError) as error:
        print(f"record_case: {error}; next: another --seed, or `make interop-setup`", file=sys.stderr)
        return 1
    print(f"recorded {case}: {json.loads((case / 'case.json').read_text())['ops']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
