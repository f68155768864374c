"""Scenes with daemons of each role, with uploads and with retention."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from checkpointer.storage.formatting import leftover_names
from checkpointer.storage.inspector import list_images
from checkpointer.storage.retention import enforce_retention
from checkpointer.transfer import upload_image
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import image_name
from image_format.md5_file import md5_of_file, md5_path, read_md5_file
from namenode_stub.node import NameNodeStub
from tests.checkpointer.backup_support import Daemon as BackupDaemon
from tests.checkpointer.backup_support import backup_config
from tests.checkpointer.secondary_support import Secondary, secondary_config
from tests.checkpointer.standby_support import Daemon as StandbyDaemon
from tests.checkpointer.standby_support import config_for, write_edits
from tests.checkpointer.storage_support import recorded_directory, stored_txids, whole_images
from tests.cli_runner import run_cli
from tests.faults.child import Outcome
from tests.faults.scene import READING, RESTORING, Scene, guarded, of_alarms, of_result, survived
from tests.namenode_stub.namenode_double import NamenodeDouble, streaming_double
from tests.namenode_stub.stub_support import formatted, stub_config_for, wait_until
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, make_store, serve


class Upload(Scene):
    codes = frozenset({ExitCode.STORAGE, ExitCode.TRANSFER})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copy(NEW_IMAGE, self.root)
        self.store = make_store(folder / "store")

    @contextmanager
    def serving(self) -> Iterator[None]:
        with serve(self.store) as running:
            self.url = running.url
            yield

    def arguments(self) -> tuple[object, ...]:
        return str(self.root / NEW_IMAGE.name), self.url

    @staticmethod
    def run(image: str, url: str) -> Outcome:
        def send() -> Outcome:
            path = Path(image)
            upload_image(url, path, md5_of_file(path).hex(), NEW_TXID, INFO)
            return Outcome(0, "")

        return guarded(send)

    def remains(self, outcome: Outcome) -> None:
        for folder in self.store.directories:
            taken = folder / NEW_IMAGE.name
            assert taken.exists() or outcome.code
            if taken.exists():
                assert taken.read_bytes() == NEW_IMAGE.read_bytes()

    def go_on(self) -> None:
        def taken() -> bool:
            # The server responds with 409 until it notices that the previous upload was interrupted.
            reported = self.run(*self.arguments())
            assert reported.code == 0, reported
            return all((folder / NEW_IMAGE.name).exists() for folder in self.store.directories)

        wait_until("the image to be taken", taken)
        self.remains(Outcome(0, ""))


class Retention(Scene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        recorded_directory(self.root, "renames")
        assert run_cli("merge", self.root).code == 0

    @staticmethod
    def run(root: str) -> Outcome:
        current = [Path(root) / "current"]
        warnings = enforce_retention(current, current, keep=1, extra_edits=0, max_segments=100)
        return Outcome(ExitCode.STORAGE if warnings else 0, "\n  next: tried again\n".join([*warnings, ""]))

    def remains(self, outcome: Outcome) -> None:
        assert 183 in whole_images(self.root / "current")

    def go_on(self) -> None:
        reported = self.run(str(self.root))
        assert reported.code == 0, reported
        newest = self.root / "current" / image_name(183)
        names = {path.name for path in (self.root / "current").iterdir()}
        # the next start removes an image without a digest file
        assert names - set(leftover_names(names)) == {newest.name, md5_path(newest).name, "VERSION", "seen_txid"}


class _DaemonScene(Scene):
    """A scene of a daemon. The fault may end the daemon's start; the daemon survives later faults."""

    codes = frozenset({ExitCode.STORAGE, ExitCode.TRANSFER}) | READING
    namenode: NamenodeDouble

    @contextmanager
    def serving(self) -> Iterator[None]:
        with self.namenode:
            yield


def followed(daemon: StandbyDaemon | BackupDaemon, follow: Callable[[], object]) -> Outcome:
    """Follow the edits and make a checkpoint; return the outcome of the first fault."""
    follow()
    alarms = of_alarms(daemon.role.alarms())
    made = of_result(daemon.service.request(force=True, wait=True))
    return alarms if alarms.code else made


class SecondaryCheckpoint(_DaemonScene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.namenode = NamenodeDouble(folder / "namenode", "hadoop-2.7.3/renames")

    def arguments(self) -> tuple[object, ...]:
        return str(self.root), self.namenode.rpc_port, self.namenode.http_port

    @staticmethod
    def run(root: str, rpc_port: int, http_port: int) -> Outcome:
        config = secondary_config(Path(root), rpc_port, http_port, **RESTORING)

        def work() -> Outcome:
            with Secondary(config) as secondary:
                return survived(lambda: of_result(secondary.checkpoint()), secondary.service)

        return guarded(work)

    def remains(self, outcome: Outcome) -> None:
        whole_images(self.root / "secondary" / "current")
        for txid in self.namenode.image_txids():
            path = self.namenode.folder / image_name(txid)
            assert md5_of_file(path) == read_md5_file(path)

    def go_on(self) -> None:
        reported = self.run(*self.arguments())
        assert reported.code == 0, reported
        newest = max(whole_images(self.root / "secondary" / "current").values())
        assert (self.namenode.folder / newest.name).read_bytes() == newest.read_bytes()


class StandbyCheckpoint(_DaemonScene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        formatted(folder / "active", checkpoint_transactions=1, rpc_address=("127.0.0.1", 0))

    @contextmanager
    def serving(self) -> Iterator[None]:
        config = stub_config_for(self.folder / "active", rpc_address=("127.0.0.1", 0), checkpoint_transactions=1)
        with NameNodeStub(config) as self.stub:
            write_edits(self.stub, "a", 3)
            write_edits(self.stub, "b", 3)
            yield

    def arguments(self) -> tuple[object, ...]:
        return str(self.folder), self.stub.server.url, self.stub.rpc_address

    @staticmethod
    def run(folder: str, url: str, rpc: tuple[str, int]) -> Outcome:
        config = config_for(
            Path(folder),
            url,
            namenode_rpc_addresses=(rpc,),
            image_directories=(Path(folder) / "root" / "nn",),
            images_retained=1,
            restore_directories=True,
        )

        def work() -> Outcome:
            with StandbyDaemon(config) as daemon:
                return survived(lambda: followed(daemon, daemon.role.tail), daemon.service)

        return guarded(work)

    def remains(self, outcome: Outcome) -> None:
        whole_images(self.root / "nn" / "current")
        whole_images(self.folder / "active" / "name" / "current")

    def go_on(self) -> None:
        reported = self.run(*self.arguments())
        assert reported.code == 0, reported
        newest = max(whole_images(self.root / "nn" / "current").items())[1]
        assert newest == self.root / "nn" / "current" / image_name(
            self.stub.namespace.transactions.log.segment_first_txid - 1
        )
        theirs = self.folder / "active" / "name" / "current" / newest.name
        assert theirs.read_bytes() == newest.read_bytes()


class BackupStream(_DaemonScene):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.namenode = streaming_double(folder / "nn", "hadoop-2.7.3/renames")
        self.namenode.batches = lambda count: itertools.chain([count // 2], [count - count // 2])
        self.namenode.after_roll = 6

    def arguments(self) -> tuple[object, ...]:
        return str(self.root / "backup"), self.namenode.rpc_port, self.namenode.http_port

    @staticmethod
    def run(folder: str, rpc_port: int, http_port: int) -> Outcome:
        def work() -> Outcome:
            with BackupDaemon(
                replace(backup_config(Path(folder), rpc_port, http_port), restore_directories=True)
            ) as daemon:
                return survived(lambda: followed(daemon, daemon.follow), daemon.service)

        return guarded(work)

    def remains(self, outcome: Outcome) -> None:
        current = self.root / "backup" / "current"
        whole_images(current)
        if current.is_dir():
            found = stored_txids(current)
            oldest = min((image.txid for image in list_images(current)), default=0)
            for stream in self.namenode.streams.values():
                assert {txid for txid in stream.acknowledged if txid > oldest} <= found

    def go_on(self) -> None:
        folder, rpc_port, http_port = self.arguments()
        with BackupDaemon(backup_config(Path(str(folder)), int(str(rpc_port)), int(str(http_port)))) as daemon:
            daemon.follow(3)
            assert daemon.role.alarms() == []
            path = daemon.checkpoint()
            assert (self.namenode.folder / path.name).read_bytes() == path.read_bytes()
