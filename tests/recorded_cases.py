"""The recorded cases: real images and edits, and the images that Hadoop made from them."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from tests.site_files import write_site
from tests.tools import imgcmp

RECORDED = Path(__file__).parent / "recorded"
_SNAPSHOT_OPS = {"CREATE_SNAPSHOT", "DELETE_SNAPSHOT", "RENAME_SNAPSHOT"}


def replications(image: Path) -> dict[int, int]:
    """Return the replication factor of each file of an image, by inode id."""
    found = imgcmp.Image(str(image)).inodes
    return {number: inode["file"]["replication"] for number, inode in found.items() if "file" in inode}


@dataclass(frozen=True)
class Case:
    path: Path

    @property
    def id(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def info(self) -> dict[str, Any]:
        return json.loads((self.path / "case.json").read_text())

    @property
    def edits_xml(self) -> str:
        return str(self.path / "edits.xml.gz")

    def image(self, folder: str) -> Path:
        return next((self.path / folder).glob("fsimage_" + "?" * 19))

    def copy_of(self, folder: str, target: Path) -> Path:
        """Copy the image of `folder` and its digest file to `target`; return the copy."""
        image = self.image(folder)
        shutil.copy(image.with_name(f"{image.name}.md5"), target)
        return Path(shutil.copy(image, target))

    def copy_to(self, target: Path) -> Path:
        """Make a storage directory whose `current` is a copy of the case's before/; return `current`."""
        shutil.copytree(self.path / "before", target / "current")
        return target / "current"

    def expected_images(self) -> list[Path]:
        """Return the correct images: the SecondaryNameNode's image, and the NameNode's image if it differs."""
        return [self.image(folder) for folder in ("after", "after_nn") if (self.path / folder).is_dir()]

    def differences(self, actual: Path) -> list[str]:
        """Return imgcmp's differences between our image and the nearest correct image; empty if there are none."""
        clock = imgcmp.Clock(self.edits_xml)
        ours = imgcmp.Image(str(actual))
        return min(
            (imgcmp.compare(imgcmp.Image(str(path)), ours, clock=clock) for path in self.expected_images()), key=len
        )

    @property
    def configuration(self) -> dict[str, str]:
        """The part of the cluster's configuration that affects the replay of edits."""
        notes = (note.removeprefix("conf ") for note in self.info.get("notes", []) if note.startswith("conf "))
        return dict(note.split("=", 1) for note in notes)

    def write_configuration(self, folder: Path) -> Path:
        """Write the configuration as Hadoop's file; return the directory."""
        return write_site(folder, self.configuration)

    @property
    def new_layout(self) -> int | None:
        """The new layout if the case is an upgrade, else None."""
        return None if same_layout(self) else _layout(self.image("after"))

    def has_snapshots(self) -> bool:
        if _SNAPSHOT_OPS & set(self.info["ops"]):
            return True
        with ImageFile.open(self.image("before"), verify_md5=False) as before:
            snapshots = next(before.records("SNAPSHOT"), None) if before.has_section("SNAPSHOT") else None
            return snapshots is not None and pb.SnapshotSection.FromString(snapshots.body).numSnapshots > 0


def all_cases() -> list[Case]:
    return [Case(path.parent) for path in sorted(RECORDED.glob("hadoop-*/*/case.json"))]


@functools.cache
def same_layout(case: Case) -> bool:
    return _layout(case.image("before")) == _layout(case.image("after"))


@functools.cache
def _layout(path: Path) -> int:
    with ImageFile.open(path, verify_md5=False) as image:
        return image.layout_version


ALL_CASES = all_cases()
PLAIN_CASES = [case for case in ALL_CASES if not case.has_snapshots() and same_layout(case)]


def image_in(folder: Path) -> Path:
    """Return the only image of a folder."""
    return next(path for path in folder.glob("fsimage_*") if path.suffix != ".md5")
