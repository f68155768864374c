"""`checkpointer fetch-image`: fetched images, kept images, and nothing incomplete under a final name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer.backup_images import fetch as fetch_module
from checkpointer.backup_images import image_folder
from checkpointer.backup_images.fetch import FetchOptions, fetch_image
from checkpointer.backup_images.image_folder import ImageFolder
from checkpointer.errors import TransferError
from engine.observer import CancellableObserver, SilentObserver
from hadoop_common.names import image_name
from hadoop_common.storage_info import parse_version
from hadoop_rpc.errors import SafeModeError, StandbyError
from hadoop_rpc.ha_protocol import HAState
from image_format import publish
from image_format.md5_file import format_md5, md5_of_file
from image_format.reader import ImageFile
from site_config.cluster import NameNodeAddress, active_first
from tests.checkpointer.storage_support import OpenDirectories
from tests.cli_runner import Outcome, fingerprint, run_cli
from tests.namenode_stub.namenode_double import ANY_CALL, NamenodeDouble
from tests.namenode_stub.recorded_namespace import BASIC_FILES
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, OLD_IMAGE, OLD_TXID, OTHER_INFO
from tests.site_files import write_site
from tests.socket_peer import saying, scripted_web

OLD_NAME = image_name(OLD_TXID)
WHOLE = sorted([OLD_NAME, f"{OLD_NAME}.md5", f"{OLD_NAME}.VERSION"])


@pytest.fixture
def namenode(tmp_path: Path) -> Iterator[NamenodeDouble]:
    with NamenodeDouble(tmp_path / "namenode", BASIC_FILES) as running:
        running.info = INFO
        yield running


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def from_url(namenode: NamenodeDouble, shelf: Path, *options: str) -> Outcome:
    return run_cli("fetch-image", "--from", namenode.url, "--rpc", namenode.addresses().rpc, shelf, *options)


def fetched(namenode: NamenodeDouble, shelf: Path, *options: str, code: int = 0) -> dict[str, Any]:
    outcome = from_url(namenode, shelf, "--json", *options)
    assert outcome.code == code, outcome.err
    return json.loads(outcome.out)


def serve_new_image(namenode: NamenodeDouble) -> None:
    shutil.copy(NEW_IMAGE, namenode.folder)
    shutil.copy(NEW_IMAGE.with_name(NEW_IMAGE.name + ".md5"), namenode.folder)


def test_image_is_stored_with_digest_and_version(namenode: NamenodeDouble, shelf: Path) -> None:
    answer = fetched(namenode, shelf, "--deep")
    assert listing(shelf) == WHOLE
    assert (shelf / OLD_NAME).read_bytes() == OLD_IMAGE.read_bytes()
    assert parse_version((shelf / f"{OLD_NAME}.VERSION").read_bytes(), "VERSION") == INFO
    assert (answer["fetched"], answer["txid"], answer["notes"]) == (True, OLD_TXID, [])
    assert answer["size"] == OLD_IMAGE.stat().st_size
    assert answer["md5"] == md5_of_file(OLD_IMAGE).hex()


def test_present_image_is_not_fetched_again(
    namenode: NamenodeDouble, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(namenode, shelf)
    before = fingerprint(shelf)

    def again(*_: object, **__: object) -> None:
        raise AssertionError("the image was fetched again")

    monkeypatch.setattr(fetch_module, "download_image", again)
    assert not fetched(namenode, shelf)["fetched"]
    assert fingerprint(shelf) == before
    assert "already present" in from_url(namenode, shelf).out


@pytest.mark.parametrize("damage", ["image", "md5", "no md5"])
def test_damaged_copy_is_fetched_again(namenode: NamenodeDouble, shelf: Path, damage: str) -> None:
    fetched(namenode, shelf)
    if damage == "image":
        content = bytearray((shelf / OLD_NAME).read_bytes())
        content[100] ^= 1
        (shelf / OLD_NAME).write_bytes(content)
    elif damage == "md5":
        (shelf / f"{OLD_NAME}.md5").write_bytes(format_md5(bytes(16), OLD_NAME))
    else:
        (shelf / f"{OLD_NAME}.md5").unlink()
    assert fetched(namenode, shelf)["fetched"]
    assert listing(shelf) == WHOLE
    assert (shelf / OLD_NAME).read_bytes() == OLD_IMAGE.read_bytes()


def test_keep_option_removes_old_images(namenode: NamenodeDouble, shelf: Path) -> None:
    fetched(namenode, shelf)
    serve_new_image(namenode)
    answer = fetched(namenode, shelf, "--keep", "2")
    assert (answer["txid"], answer["removed"]) == (NEW_TXID, [])
    answer = fetched(namenode, shelf, "--keep", "1")
    assert (answer["fetched"], answer["removed"]) == (False, [str(shelf / OLD_NAME)])
    assert listing(shelf) == sorted(name.replace(OLD_NAME, image_name(NEW_TXID)) for name in WHOLE)


def test_image_of_a_namenode_that_was_set_back_is_kept(namenode: NamenodeDouble, shelf: Path) -> None:
    serve_new_image(namenode)
    fetched(namenode, shelf)
    for path in list(namenode.folder.glob(f"{image_name(NEW_TXID)}*")):
        path.unlink()
    answer = fetched(namenode, shelf, "--keep", "1")
    assert (answer["txid"], answer["removed"]) == (OLD_TXID, [])
    assert Path(answer["path"]).is_file()
    assert (shelf / image_name(NEW_TXID)).is_file()
    assert any("was set back" in note for note in answer["notes"])


def test_images_are_not_readable_by_other_users(namenode: NamenodeDouble, shelf: Path) -> None:
    fetched(namenode, shelf)
    assert shelf.stat().st_mode & 0o777 == 0o700


def test_truncated_error_response_causes_no_crash(shelf: Path) -> None:
    with scripted_web(saying(b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\ncut")) as url:
        outcome = run_cli("fetch-image", "--from", url, shelf)
    assert outcome.code == 7
    assert "Traceback" not in outcome.err


def test_image_of_a_given_txid(namenode: NamenodeDouble, shelf: Path) -> None:
    serve_new_image(namenode)
    assert fetched(namenode, shelf, "--txid", str(OLD_TXID))["txid"] == OLD_TXID
    refused = fetched(namenode, shelf, "--txid", "7", code=7)
    assert refused["exitCode"] == 7
    assert run_cli("fetch-image", "--from", namenode.url, shelf, "--txid", "-3").code == 2


def test_image_is_fetched_without_rpc_but_with_a_warning(namenode: NamenodeDouble, shelf: Path) -> None:
    outcome = run_cli("fetch-image", "--from", namenode.url, shelf)
    assert outcome.code == 0
    assert "VERSION is not stored" in outcome.err
    assert listing(shelf) == [OLD_NAME, f"{OLD_NAME}.md5"]
    fetched(namenode, shelf)
    assert listing(shelf) == WHOLE


def test_rpc_error_is_noted(namenode: NamenodeDouble, shelf: Path) -> None:
    namenode.faults[ANY_CALL] = StandbyError("not now")
    assert any("not now" in note for note in fetched(namenode, shelf)["notes"])


def test_images_of_another_cluster_are_rejected(namenode: NamenodeDouble, shelf: Path) -> None:
    fetched(namenode, shelf)
    serve_new_image(namenode)
    namenode.info = OTHER_INFO
    before = fingerprint(shelf)
    assert "the NameNode belongs to CID-other" in fetched(namenode, shelf, "--keep", "1", code=6)["message"]
    assert fingerprint(shelf) == before


def test_http_and_rpc_servers_of_different_clusters_are_rejected(namenode: NamenodeDouble, shelf: Path) -> None:
    namenode.info = OTHER_INFO
    assert "RPC server reports 7" in fetched(namenode, shelf, code=7)["message"]
    assert listing(shelf) == []


def test_damaged_image_of_the_namenode_is_found_by_deep(namenode: NamenodeDouble, shelf: Path) -> None:
    """The digest is correct, because the NameNode computed it from the damaged file; only --deep detects the damage."""
    image = namenode.folder / OLD_NAME
    content = bytearray(image.read_bytes())
    with ImageFile.open(image) as opened:
        position = opened.place("INODE_DIR").base
    content[position + 1 : position + 5] = b"\xff" * 4
    image.write_bytes(content)
    image.with_name(f"{OLD_NAME}.md5").write_bytes(format_md5(md5_of_file(image), OLD_NAME))
    answer = fetched(namenode, shelf, "--deep", code=3)
    assert "errors" in answer["message"]
    assert listing(shelf) == []


def test_image_with_a_wrong_digest_is_rejected(namenode: NamenodeDouble, shelf: Path) -> None:
    (namenode.folder / f"{OLD_NAME}.md5").write_bytes(format_md5(bytes(16), OLD_NAME))
    assert "expected 0000" in fetched(namenode, shelf, code=7)["message"]
    assert listing(shelf) == []


def test_image_without_a_digest_is_rejected(namenode: NamenodeDouble, shelf: Path) -> None:
    (namenode.folder / f"{OLD_NAME}.md5").unlink()
    assert fetched(namenode, shelf, code=7)["exitCode"] == 7
    assert listing(shelf) == []


@pytest.mark.parametrize("name", ["VERSION", "edits_0000000000000000001-0000000000000000002", "current/VERSION"])
def test_storage_directory_as_target_is_rejected(namenode: NamenodeDouble, shelf: Path, name: str) -> None:
    (shelf / name).parent.mkdir(parents=True)
    (shelf / name).touch()
    before = fingerprint(shelf)
    assert name in fetched(namenode, shelf, "--keep", "1", code=6)["message"]
    assert fingerprint(shelf) == before


def test_target_folder_in_use_is_rejected(namenode: NamenodeDouble, shelf: Path) -> None:
    with ImageFolder(shelf):
        assert "is held by" in fetched(namenode, shelf, code=6)["message"]


def test_full_disk_is_reported_before_the_fetch(
    namenode: NamenodeDouble, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFolder, "free", lambda _: 10)
    assert "has 10 bytes free" in fetched(namenode, shelf, code=6)["message"]
    assert listing(shelf) == []


def test_file_as_target_folder_is_rejected(namenode: NamenodeDouble, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert from_url(namenode, tmp_path / "file").code == 2
    assert fetched(namenode, tmp_path / "file" / "below", code=6)["exitCode"] == 6


def test_leftovers_of_a_killed_run_are_removed(namenode: NamenodeDouble, shelf: Path) -> None:
    (shelf / ".fetch").mkdir(parents=True)
    (shelf / ".fetch" / "fsimage.ckpt_0000000000000000009").write_bytes(b"half")
    for name in ("fsimage_0000000000000000009.md5", "fsimage_0000000000000000009.VERSION", "notes.md5"):
        (shelf / name).write_bytes(b"half")
    fetched(namenode, shelf)
    assert listing(shelf) == sorted([*WHOLE, "notes.md5"])


# steps: digest file and name of the staged image; then VERSION, digest file and name in the folder
@pytest.mark.parametrize("step", range(5))
def test_kill_between_two_steps_leaves_no_image_that_looks_complete(
    namenode: NamenodeDouble, shelf: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    class KilledError(BaseException):
        """The simulated end of the process."""

    done = [0]

    def killing(real: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if done[0] == step:
                raise KilledError
            done[0] += 1
            return real(*arguments)

        return call

    source = NameNodeAddress(namenode.url, namenode.rpc)
    with monkeypatch.context() as patched:
        for module, name in (
            (image_folder, "write_atomically"),
            (publish, "write_md5_file"),
            (publish, "rename_durably"),
        ):
            patched.setattr(module, name, killing(getattr(module, name)))
        with pytest.raises(KilledError), ImageFolder(shelf) as opened:
            fetch_image([source], opened, FetchOptions(user="hdfs"))
    assert OLD_NAME not in listing(shelf)
    assert fetched(namenode, shelf)["fetched"]
    assert listing(shelf) == WHOLE


class Watching(SilentObserver):
    def __init__(self) -> None:
        self.totals: list[int | None] = []
        self.bytes = 0

    def phase(self, name: str, total: int | None) -> None:
        self.totals.append(total)

    def advance(self, done: int) -> None:
        self.bytes = done


def test_progress_counts_every_byte(namenode: NamenodeDouble, shelf: Path) -> None:
    observer = Watching()
    with ImageFolder(shelf) as opened:
        fetch_image([NameNodeAddress(namenode.url, None)], opened, FetchOptions(), observer)
    assert observer.bytes == OLD_IMAGE.stat().st_size
    assert observer.bytes in observer.totals


def test_a_cancelled_fetch_leaves_nothing(namenode: NamenodeDouble, shelf: Path) -> None:
    with pytest.raises(TransferError), ImageFolder(shelf) as opened:
        source = NameNodeAddress(namenode.url, None)
        fetch_image([source], opened, FetchOptions(), CancellableObserver(lambda: True))
    assert listing(shelf) == []


def test_all_namenodes_of_the_configuration_are_tried(
    namenode: NamenodeDouble, shelf: Path, tmp_path: Path, closed_port: int
) -> None:
    values = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "nn1,nn2",
        "dfs.namenode.http-address.ns.nn1": f"127.0.0.1:{closed_port}",
        "dfs.namenode.rpc-address.ns.nn1": f"127.0.0.1:{closed_port}",
        "dfs.namenode.http-address.ns.nn2": namenode.addresses().http,
        "dfs.namenode.rpc-address.ns.nn2": namenode.addresses().rpc,
        # fetch-image does not use the quorum journal
        "dfs.namenode.shared.edits.dir": "qjournal://a;b;c/ns",
    }
    conf = write_site(tmp_path / "conf", values)
    namenode.state, namenode.written = HAState.STANDBY, OLD_TXID
    outcome = run_cli("fetch-image", "--conf", conf, shelf, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["source"] == namenode.url
    assert "getServiceStatus" in namenode.steps
    (failed_source,) = json.loads(outcome.out)["notes"]
    assert f"127.0.0.1:{closed_port}" in failed_source
    namenode.write_all()
    outcome = run_cli("fetch-image", "--conf", conf, shelf, "--json")
    assert json.loads(outcome.out)["notes"][1] == (
        f"{namenode.url} is not active, and its image lacks {namenode.written - OLD_TXID} transactions that this "
        "NameNode has in its edits: fetch again once an active NameNode sends its image"
    )
    namenode.state = HAState.ACTIVE
    outcome = run_cli("fetch-image", "--conf", conf, shelf, "--json")
    assert json.loads(outcome.out)["notes"] == []
    values["dfs.namenode.http-address.ns.nn2"] = f"localhost:{closed_port}"
    failed = run_cli("fetch-image", "--conf", write_site(tmp_path / "conf", values), shelf)
    assert failed.code == 7
    assert f"127.0.0.1:{closed_port}" in failed.err
    assert f"localhost:{closed_port}" in failed.err


def test_old_image_of_a_standby_is_reported_although_no_namenode_failed(namenode: NamenodeDouble, shelf: Path) -> None:
    namenode.state = HAState.STANDBY
    namenode.write_all()
    (note,) = fetched(namenode, shelf)["notes"]
    assert f"lacks {namenode.written - OLD_TXID} transactions" in note


def test_image_of_a_standby_is_kept_although_the_standby_does_not_report_its_transactions(
    namenode: NamenodeDouble, shelf: Path
) -> None:
    namenode.state, namenode.faults["getTransactionId"] = HAState.STANDBY, SafeModeError("it starts")
    namenode.write_all()
    assert fetched(namenode, shelf)["notes"] == []
    assert "getTransactionId" in namenode.steps


def test_active_namenode_is_tried_first() -> None:
    states = {"a": HAState.STANDBY, "b": None, "c": HAState.ACTIVE, "d": HAState.OBSERVER}
    order = active_first([NameNodeAddress(name, None) for name in states], lambda each: states[each.http])
    assert [each.http for each in order] == ["c", "b", "d", "a"]


def test_invalid_options_are_rejected(shelf: Path, tmp_path: Path) -> None:
    assert run_cli("fetch-image", shelf).code == 2
    conf = write_site(tmp_path / "conf", {"fs.defaultFS": "hdfs://nn"})
    assert run_cli("fetch-image", "--conf", conf, "--from", "http://a:1", shelf).code == 2
    assert run_cli("fetch-image", "--conf", conf, "--rpc", "a:1", shelf).code == 2
    for url in ("ftp://a:1", "a:1", "http://", "http://a:port", "http://a:0"):
        outcome = run_cli("fetch-image", "--from", url, shelf)
        assert outcome.code == 2
        assert f"Invalid value for '--from': '{url}' is not http://host:port" in " ".join(outcome.err.split())


def test_storage_directory_is_restored_from_a_fetched_image(
    namenode: NamenodeDouble, shelf: Path, tmp_path: Path
) -> None:
    """Restore an image according to docs/operations.md."""
    fetched(namenode, shelf)
    current = tmp_path / "restored" / "current"
    current.mkdir(parents=True)
    for name in (OLD_NAME, f"{OLD_NAME}.md5"):
        shutil.copy(shelf / name, current)
    shutil.copy(shelf / f"{OLD_NAME}.VERSION", current / "VERSION")
    with OpenDirectories([tmp_path / "restored"]) as storage:
        assert storage.storage_info() == INFO
        assert storage.verified_image().txid == OLD_TXID
