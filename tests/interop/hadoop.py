"""A running Hadoop for tests: one JVM that loads, saves and views files on demand, without a network."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tests.interop.hadoop_home import CLIENT, SERVER, HadoopRelease
from tests.interop.hadoop_process import JvmPipe, java_command

_MAIN = "org.apache.hadoop.hdfs.server.namenode.HadoopTools"
_LOGGED = 8000


class HadoopRefusedError(Exception):
    """Hadoop's error for a file that it refuses."""


class Hadoop:
    """A JVM behind a pipe; see tests/interop/java/HadoopTools.java for the commands.

    Args:
        folder: folder for the JVM's log and the files that it writes.
        release: release of the tools.

    Raises:
        MissingHadoopError: Java, the jars or the compiled program are missing.
    """

    def __init__(self, folder: Path, release: HadoopRelease = SERVER) -> None:
        self.release = release
        self._folder = folder
        self._log = folder / "hadoop.log"
        self._files = 0
        # In Hadoop 2, the viewer's class for delimited rows shares a class with a web server that uses Netty 4.
        # Hadoop 3 does not include the jar that one of its codecs needs.
        lent = CLIENT.jars.folder.glob("lz4-java-*.jar" if release.is_3 else "netty-*.jar")
        classes = os.pathsep.join([release.class_path(), *map(str, sorted(lent))])
        command = java_command(classes, _MAIN, heap="1g", work=folder, archive=release.class_archive())
        self._jvm = JvmPipe(command, self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.close()

    def load_and_save(self, image: Path, version_file: Path) -> Path:
        """Return the image that a NameNode saves after loading `image`; its digest file must be next to it.

        Args:
            version_file: VERSION of the storage directory to which the image belongs.

        Raises:
            HadoopRefusedError: the NameNode does not load the image.
        """
        txid, out = self._reload(image, version_file)
        assert txid == int(image.name.rpartition("_")[2])
        return out / "current" / f"fsimage.ckpt_{txid:019d}"

    def loads(self, image: Path, version_file: Path) -> bool:
        """Return whether a NameNode loads `image` and saves it; arguments as for `load_and_save`."""
        try:
            self._reload(image, version_file)
        except HadoopRefusedError:
            return False
        return True

    def _reload(self, image: Path, version_file: Path) -> tuple[int, Path]:
        """Return the NameNode's transaction after it loaded an image, and the folder in which it saved the image."""
        txid = int(image.name.rpartition("_")[2])
        name, out = self._fresh(), self._fresh()
        current = name / "current"
        current.mkdir(parents=True)
        for path in (image, image.with_name(image.name + ".md5"), version_file):
            shutil.copyfile(path, current / path.name)
        # the recording may come from an upgrade, or from a later release of the same line
        version = (current / "VERSION").read_text()
        (current / "VERSION").write_text(re.sub("layoutVersion=.*", f"layoutVersion={self.release.layout}", version))
        (current / "seen_txid").write_text(f"{txid}\n")
        return int(self._ask("reload", name, out)), out

    def replay_and_save(self, directory: Path) -> Path:
        """Return the image that a NameNode saves after loading a storage directory, image and edits.

        Raises:
            HadoopRefusedError: the NameNode does not load the directory.
        """
        out = self._fresh()
        txid = int(self._ask("reload", directory, out))
        return out / "current" / f"fsimage.ckpt_{txid:019d}"

    def replay(self, name: Path, out: Path, keys: Mapping[str, str] = MappingProxyType({})) -> int:
        """Load a storage directory as a NameNode does at its start, save the namespace and return its txid.

        Args:
            keys: configuration of the NameNode.

        Raises:
            HadoopRefusedError: a NameNode terminates; the message contains the last txid that it applied.
        """
        return int(self._ask("replay", name, out, *(f"{key}={value}" for key, value in keys.items())))

    def view_image(self, image: Path, output_format: str = "XML") -> str:
        """Return the output of OfflineImageViewerPB for an image, as XML or Delimited.

        Raises:
            HadoopRefusedError: the viewer stops before the image's end.
        """
        out = self._fresh()
        self._ask("oiv", image, out, output_format)
        # keep carriage returns
        return out.read_bytes().decode("utf-8", "surrogateescape")

    def view_edits(self, edits: Path, output_format: str = "xml") -> bytes:
        """Return the output of OfflineEditsViewer for a segment: XML, or a segment with the format "binary"."""
        out = self._fresh()
        self._ask("oev", edits, out, output_format)
        return out.read_bytes()

    def _fresh(self) -> Path:
        """Return an unused path."""
        self._files += 1
        return self._folder / f"{self._files}"

    def _ask(self, command: str, *words: str | Path) -> str:
        before = self._log.stat().st_size
        verdict, _, text = self._jvm.ask("\t".join([command, *map(str, words)])).partition("\t")
        if verdict == "ok" and (command in ("reload", "replay") or text == "0"):
            return text
        log = self._log.read_bytes()[before:][:_LOGGED].decode("utf-8", "replace")
        raise HadoopRefusedError(f"{command} {words[0]}: {verdict} {text}\n{log}")
