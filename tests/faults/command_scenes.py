"""Scenes of commands that merge, convert, repair, recover and fetch."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import parse_image
from image_format.md5_file import md5_path
from image_format.reader import ImageFile
from journal.segment_file import list_segments, read_ops
from tests.checkpointer.storage_support import recorded_directory, whole_images
from tests.cli_runner import fingerprint, run_cli
from tests.faults.child import Outcome
from tests.faults.scene import READING, Scene, kept, of_command
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.recorded_namespace import BASIC_FILES
from tests.recorded_cases import RECORDED
from tests.servlets.support import NEW_IMAGE, NEW_TXID


class Merge(Scene):
    codes = frozenset({ExitCode.STORAGE}) | READING

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        recorded_directory(self.root, "renames")
        self.before = fingerprint(self.root)

    @staticmethod
    def run(root: str) -> Outcome:
        return of_command("merge", root)

    def expected(self) -> bytes:
        path = self.folder / "expected"
        if not path.exists():
            recorded_directory(path, "renames")
            assert run_cli("merge", path).code == 0
        return max(whole_images(path / "current").items())[1].read_bytes()

    def remains(self, outcome: Outcome) -> None:
        kept(self.before, self.root)
        found = whole_images(self.root / "current")
        if outcome.code == 0:
            assert len(found) == 2
        for path in list(found.values())[1:]:
            assert path.read_bytes() == self.expected()

    def go_on(self) -> None:
        assert run_cli("merge", self.root).code == 0
        kept(self.before, self.root)
        assert [path.read_bytes() for path in whole_images(self.root / "current").values()][1:] == [self.expected()]
        assert [path.name for path in (self.root / "current").iterdir() if path.suffix == ".tmp"] == []


class _OneImage(Scene):
    """Scene of a command that makes `out/fsimage_N` from `in/fsimage_N`."""

    codes = frozenset({ExitCode.STORAGE, ExitCode.BAD_IMAGE})
    options: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.root / "in").mkdir()
        (self.root / "out").mkdir()
        shutil.copy(NEW_IMAGE, self.source)

    @property
    def source(self) -> Path:
        return self.root / "in" / NEW_IMAGE.name

    @property
    def target(self) -> Path:
        return self.root / "out" / NEW_IMAGE.name

    @abstractmethod
    def check(self) -> None:
        """Assert that the new image is correct."""

    def remains(self, outcome: Outcome) -> None:
        assert self.source.read_bytes() == NEW_IMAGE.read_bytes()
        if outcome.code == 0 or (self.target.exists() and md5_path(self.target).exists()):
            self.check()

    def go_on(self) -> None:
        reported = type(self).run(str(self.root))
        assert reported.code == 0, reported
        self.remains(reported)
        assert [path.name for path in self.target.parent.iterdir() if path.suffix == ".tmp"] == []


class Convert(_OneImage):
    @staticmethod
    def run(root: str) -> Outcome:
        out, source = (Path(root) / each / NEW_IMAGE.name for each in ("out", "in"))
        return of_command("image", "convert", "--layout", "-67", "--codec", "gzip", "--force", source, out)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copy(md5_path(NEW_IMAGE), md5_path(self.source))

    def check(self) -> None:
        with ImageFile.open(self.target) as image:
            assert (image.txid, image.layout_version, image.codec.endswith("GzipCodec")) == (NEW_TXID, -67, True)


class Repair(_OneImage):
    """A repair of an image whose digest file is lost."""

    @staticmethod
    def run(root: str) -> Outcome:
        out, source = (Path(root) / each / NEW_IMAGE.name for each in ("out", "in"))
        return of_command("image", "verify", source, "--repair", out, "--force")

    def check(self) -> None:
        with ImageFile.open(self.target) as image:
            assert image.txid == NEW_TXID
        assert run_cli("image", "verify", self.target).code == 0


class Recover(Scene):
    codes = frozenset({ExitCode.STORAGE, ExitCode.BAD_EDITS})
    names = ("edits_inprogress_0000000000000000059", "edits_0000000000000000059-0000000000000000072")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        whole = next((RECORDED / "hadoop-2.7.3" / "segments" / "before").glob("edits_*59-*")).read_bytes()
        self.content = whole[: len(whole) // 2]
        (self.root / self.names[0]).write_bytes(self.content)
        (self.root / "saved").mkdir()

    @staticmethod
    def run(root: str) -> Outcome:
        return of_command("edits", "recover", Path(root) / Recover.names[0], Path(root) / "saved", "--force")

    def remains(self, outcome: Outcome) -> None:
        assert (self.root / self.names[0]).read_bytes() == self.content
        for segment in list_segments(self.root / "saved"):
            assert len(list(read_ops(segment))) > 10
            assert self.content.startswith(segment.path.read_bytes())
        if outcome.code == 0:
            assert list_segments(self.root / "saved")

    def go_on(self) -> None:
        reported = self.run(str(self.root))
        assert reported.code == 0, reported
        self.remains(reported)


class FetchImage(Scene):
    codes = frozenset({ExitCode.STORAGE, ExitCode.BAD_IMAGE, ExitCode.TRANSFER})

    @contextmanager
    def serving(self) -> Iterator[None]:
        with NamenodeDouble(self.folder / "namenode", BASIC_FILES) as self.namenode:
            yield

    def arguments(self) -> tuple[object, ...]:
        return self.namenode.url, self.namenode.addresses().rpc, str(self.root)

    @staticmethod
    def run(url: str, rpc: str, root: str) -> Outcome:
        return of_command("fetch-image", "--from", url, "--rpc", rpc, Path(root) / "shelf", "--deep")

    def remains(self, outcome: Outcome) -> None:
        shelf = self.root / "shelf"
        for path in shelf.iterdir() if shelf.is_dir() else []:
            if parse_image(path.name) is not None and path.suffix == "":
                ImageFile.open(path).close()
                outcome.facts["image"] = path
        assert outcome.code or "image" in outcome.facts

    def go_on(self) -> None:
        reported = self.run(*self.arguments())
        assert reported.code == 0, reported
        self.remains(reported)
        assert len(list((self.root / "shelf").iterdir())) == 3
