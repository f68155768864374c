"""`checkpointer edits convert` as a user runs it, and the merge of a journal that was written by hand."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.merge import merge
from hadoop_common.errors import StorageError
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo, format_version, parse_version
from journal.file_journal import FileJournal
from journal.open_journal import open_journal
from journal.segment_copies import SegmentCopies, read_log
from tests.checkpointer.quorum_support import Quorum, write_recorded
from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import BASE_TXID, HADOOP2, ROOT, ImageBuilder, Saved
from tests.recorded_cases import RECORDED, Case
from tests.site_files import write_site

NAMESPACE = StorageInfo(HADOOP2, 7, 0, "CID-hand", "BP-1-127.0.0.1-1")
SEGMENTS = Case(RECORDED / "hadoop-2.7.3" / "segments")

TUTORIAL = """\
{"OP":"MKDIR","PATH":"/user","txid":101}
{"OP":"MKDIR","PATH":"/user/ada","txid":102}
{"OP":"CREATE","PATH":"/user/ada/notes","txid":103}
{"OP":"CLOSE","PATH":"/user/ada/notes","txid":104}
{"OP":"CREATE","PATH":"/user/ada/draft","txid":105}
---
{"OP":"RENAME","SRC":"/user/ada/notes","DST":"/user/notes","txid":106}
{"OP":"SET_OWNER","SRC":"/user/ada","USERNAME":"ada","txid":107}
{"OP":"MKDIR","PATH":"/tmp","txid":108}
---
{"OP":"RM","PATH":"/tmp","txid":109}
"""


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """A directory of three files in the tutorial's form."""
    folder = tmp_path / "hand"
    folder.mkdir()
    for part in TUTORIAL.split("---\n"):
        lines = part.splitlines()
        first, last = (json.loads(line)["txid"] for line in (lines[0], lines[-1]))
        (folder / f"edits_{first}-{last}.json").write_text(part)
    return folder


@pytest.fixture
def name_directory(tmp_path: Path) -> Path:
    """A storage directory with an image at txid 100 that contains only /data."""
    current = tmp_path / "name" / "current"
    image = ImageBuilder(HADOOP2)
    image.directory("/data")
    image.save(current)
    (current / "VERSION").write_bytes(format_version(NAMESPACE, datetime.now(UTC)))
    (current / "seen_txid").write_text("101\n")
    return current.parent


# ---- by hand -----------------------------------------------------------------------------------------------


def check_image(path: Path) -> None:
    image = Saved(path.read_bytes())
    assert set(image.paths) == {"/", "/data", "/user", "/user/ada", "/user/ada/draft", "/user/notes"}
    assert (image["/user"].id, image["/user/ada"].id, image["/user/notes"].id) == (ROOT + 101, ROOT + 102, ROOT + 103)
    assert not image["/user/notes"].file.HasField("fileUC")
    assert image.leases() == {ROOT + 105: "/user/ada/draft"}
    assert image.status(image["/user/ada"].directory.permission) == ("ada", "supergroup", 0o755)
    assert image.status(image["/user/notes"].file.permission) == ("hdfs", "supergroup", 0o644)
    assert (image["/user/notes"].file.replication, image.mtime("/user/notes")) == (3, 0)
    assert image.info.transactionId == 109


def test_handwritten_journal_is_replayed_directly(by_hand: Path, name_directory: Path, tmp_path: Path) -> None:
    first = BASE_TXID + 1
    journal = open_journal(f"json://{by_hand}")
    current = name_directory / "current"
    images = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        ops = read_log(journal.segments(first), first)
        merge(current / "fsimage_0000000000000000100", ops, [tmp_path / name])
        images.append(tmp_path / name / "fsimage_0000000000000000109")
    check_image(images[0])
    # the same journal always gives the same image
    assert images[0].read_bytes() == images[1].read_bytes()


def test_handwritten_journal_converts_to_mergeable_segments(
    by_hand: Path, name_directory: Path, tmp_path: Path
) -> None:
    code, _, err = run_cli("edits", "convert", f"json://{by_hand}", tmp_path / "edits")
    assert code == 2
    assert "--version-file" in err
    version = name_directory / "current" / "VERSION"
    code, out, err = run_cli(
        "edits", "convert", f"json://{by_hand}", tmp_path / "edits", "--version-file", version, "--json"
    )
    assert code == 0, err
    assert json.loads(out) == {
        "source": f"json://{by_hand}",
        "target": f"file://{tmp_path}/edits",
        "firstTxid": 101,
        "lastTxid": 109,
        "transactions": 9,
        "segments": 1,
        "layoutVersions": [HADOOP2],
    }
    (segment,) = (tmp_path / "edits" / "current").glob("edits_*")
    shutil.copy(segment, name_directory / "current")
    code, _, err = run_cli("merge", name_directory)
    assert code == 0, err
    check_image(name_directory / "current" / "fsimage_0000000000000000109")


def test_copy_without_its_newest_segment_is_not_merged(
    by_hand: Path, name_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the directory of a NameNode: --force keeps its image
    current = name_directory / "current"
    version = tmp_path / "VERSION"
    shutil.copy(current / "VERSION", version)
    extra = '{"OP":"MKDIR","PATH":"/late","txid":110}\n'
    (by_hand / "edits_110-110.json").write_text(extra)
    source = tmp_path / "source"
    build = ("edits", "convert", f"json://{by_hand}", source, "--version-file", version)
    assert run_cli(*build, "--to", "109").code == run_cli(*build, "--resume").code == 0
    assert (source / "current" / "seen_txid").read_text() == "110\n"
    arguments = ("edits", "convert", source, name_directory)
    start_segment = FileJournal.start_segment

    def killed(self: FileJournal, first_txid: int, layout_version: int) -> object:
        if first_txid == 110:
            raise KeyboardInterrupt
        return start_segment(self, first_txid, layout_version)

    with monkeypatch.context() as patch:
        patch.setattr(FileJournal, "start_segment", killed)
        assert run_cli(*arguments, "--force").code != 0
    code, _, err = run_cli("merge", name_directory)
    assert (code, "txid 110" in err) == (6, True), err
    assert run_cli(*arguments, "--resume")[::2] == (0, "")
    (current / "edits_0000000000000000110-0000000000000000110").unlink()
    assert run_cli("merge", name_directory).code == 6
    # after a copy that ends earlier, seen_txid still names the segment that the NameNode of the directory began
    code, _, err = run_cli(*arguments, "--force", "--to", "109")
    assert (code, "seen_txid in DST is 110" in err, "--force" in err) == (0, True, False)
    assert (current / "seen_txid").read_text() == "110\n"
    assert run_cli(*arguments, "--force")[::2] == (0, "")
    assert run_cli("merge", name_directory).code == 0


def test_resumed_copy_that_ends_earlier_is_refused_as_a_start(by_hand: Path, tmp_path: Path) -> None:
    """seen_txid may have been written by a NameNode whose newest segments were lost, so only --force changes this
    file.
    """
    version, seen = by_hand.parent / "VERSION", tmp_path / "copy/current/seen_txid"
    version.write_bytes(format_version(NAMESPACE, datetime.now(UTC)))
    build = ("edits", "convert", f"json://{by_hand}", tmp_path / "copy", "--version-file", version, "--to", "105")
    assert run_cli(*build)[::2] == (0, "")
    # the earlier copy was intended to reach the last transaction
    seen.write_text("109\n")
    code, _, err = run_cli(*build, "--resume")
    assert (code, "seen_txid in DST is 109; a NameNode does not start" in err, "with --force" in err) == (0, True, True)
    assert run_cli(*build, "--force")[::2] == (0, "")
    assert seen.read_text() == "105\n"


def test_convert_refuses_a_target_with_images_of_another_namespace(by_hand: Path, name_directory: Path) -> None:
    version = by_hand.parent / "VERSION"
    version.write_bytes(format_version(dataclasses.replace(NAMESPACE, cluster_id="CID-other"), datetime.now(UTC)))
    before = fingerprint(name_directory)
    code, _, err = run_cli(
        "edits", "convert", f"json://{by_hand}", name_directory, "--version-file", version, "--force"
    )
    assert (code, "cluster_id is CID-hand, not CID-other" in err) == (4, True), err
    assert fingerprint(name_directory) == before


# ---- there and back ----------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    SEGMENTS.copy_to(tmp_path / "source")
    return tmp_path / "source"


@pytest.mark.recorded
def test_segments_round_trip_through_json(source: Path, tmp_path: Path) -> None:
    before = fingerprint(source)
    code, out, err = run_cli("edits", "convert", source, f"json://{tmp_path}/json")
    assert (code, err) == (0, "")
    names = sorted(path.name for path in (source / "current").glob("edits_*-*"))
    assert out.startswith(f"json://{tmp_path}/json: ")
    assert out.endswith(f"in {counted(len(names), 'segment')}\n")
    assert run_cli("edits", "convert", f"json:{tmp_path}/json", f"file://{tmp_path}/again").code == 0
    again = fingerprint(tmp_path / "again")
    assert {name: digest for name, digest in before.items() if "edits_" in name and "inprogress" not in name} == {
        name: digest for name, digest in again.items() if "edits_" in name
    }
    assert fingerprint(source) == before
    assert not list(tmp_path.rglob("in_use.lock"))


@pytest.mark.recorded
def test_existing_target_is_replaced_only_with_force(source: Path, tmp_path: Path) -> None:
    target = f"json://{tmp_path}/json"
    assert run_cli("edits", "convert", source, target).code == 0
    before = fingerprint(tmp_path / "json")
    code, _, err = run_cli("edits", "convert", source, target)
    assert code == 6
    assert "a journal already exists" in err
    assert "--force" in err
    assert fingerprint(tmp_path / "json") == before
    first = _oldest(source) + 1
    code, out, _ = run_cli("edits", "convert", source, target, "--force", "--from", str(first), "--json")
    assert code == 0
    assert json.loads(out)["firstTxid"] == first
    assert fingerprint(tmp_path / "json") != before


@pytest.mark.recorded
def test_copy_between_namenode_and_journal_node_is_resumed(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    for of_journal_node in (source, target):
        assert run_cli("edits", "convert", source, target, "--force").code == 0
        version = of_journal_node / "current" / "VERSION"
        text = version.read_text()
        version.write_text(text.replace("storageType=NAME_NODE", "storageType=JOURNAL_NODE"))
        before = fingerprint(target)
        max((target / "current").glob("edits_*-*")).unlink()
        assert run_cli("edits", "convert", source, target, "--resume")[::2] == (0, "")
        assert fingerprint(target) == before
        version.write_text(text)


def _oldest(source: Path) -> int:
    return min(int(path.name[6:25]) for path in (source / "current").glob("edits_*-*"))


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("file:///nowhere/at/all", "json:///tmp/never"), 4, "the journal does not exist"),
        (("cassandra://zk/ledgers", "json:///tmp/never"), 4, "has an unknown scheme"),
        (("SOURCE", "SOURCE"), 2, "are the same journal"),
        (("SOURCE", "TARGET", "--to", "999999"), 4, "gap in the edit log"),
        (("SOURCE", "TARGET", "--from", "-1"), 2, "-1"),
        (("SOURCE", "TARGET", "--from", "9", "--to", "8"), 2, "--from 9 is after --to 8"),
        (("SOURCE", "TARGET", "--layout", "-12"), 5, "-12"),
        (("TARGET", "SOURCE", "--force"), 4, "the journal does not exist"),
        (("SEGMENT", "TARGET"), 4, "it is not a directory"),
        (("json://SEGMENT", "TARGET"), 4, "it is not a directory"),
        (("SOURCE", "SEGMENT", "--force"), 4, "it is not a directory"),
    ],
)
def test_invalid_copies_are_refused(
    source: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = fingerprint(tmp_path)
    segment = str(next((source / "current").glob("edits_*-*")))
    places = {"SOURCE": str(source), "TARGET": f"{tmp_path}/target", "SEGMENT": segment}
    outcome = run_cli("edits", "convert", *(places.get(each, each.replace("SEGMENT", segment)) for each in arguments))
    assert (outcome.code, words in outcome.err) == (code, True), outcome.err
    assert fingerprint(tmp_path) == before


@pytest.mark.recorded
def test_damaged_version_file_is_reported(source: Path, tmp_path: Path) -> None:
    (source / "current" / "VERSION").write_text("nothing\n")
    code, _, err = run_cli("edits", "convert", source, f"json://{tmp_path}/json")
    assert code == 6
    assert "VERSION" in err
    (source / "current" / "VERSION").unlink()
    code, _, err = run_cli("edits", "convert", source, f"json://{tmp_path}/json")
    assert code == 2
    assert "--version-file" in err


@pytest.mark.recorded
def test_a_note_names_the_open_segment_that_is_not_copied(source: Path, tmp_path: Path) -> None:
    current = source / "current"
    newest = max(current.glob("edits_*-*"))
    first = newest.name.split("_")[1].split("-")[0]
    newest.rename(current / f"edits_inprogress_{first}")
    note = f"note: the open segment, from transaction {int(first)} on, is not copied; --in-progress includes it\n"
    code, _, err = run_cli("edits", "convert", source, tmp_path / "target")
    assert (code, err) == (0, note)
    for words in (("--in-progress",), ("--to", str(int(first) - 1))):
        code, _, err = run_cli("edits", "convert", source, tmp_path / "target", "--force", *words)
        assert (code, err) == (0, "")


@pytest.mark.recorded
@pytest.mark.parametrize("fault", [StorageError("the disk failed"), FileNotFoundError("edits_inprogress")])
def test_copy_succeeds_if_the_open_segment_cannot_be_read_after_it(
    source: Path, tmp_path: Path, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, faults = FileJournal.segments, [fault]

    def read(journal: FileJournal, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        if in_progress:
            raise faults.pop()
        return segments(journal, from_txid)

    monkeypatch.setattr(FileJournal, "segments", read)
    code, _, err = run_cli("edits", "convert", source, tmp_path / "target")
    assert (code, err, faults) == (0, "", [])


# ---- quorums -----------------------------------------------------------------------------------------------


@pytest.mark.recorded
def test_convert_copies_a_quorum_journal(source: Path, tmp_path: Path) -> None:
    current, version = source / "current", source / "current" / "VERSION"
    namespace = parse_version(version.read_bytes(), "")
    with Quorum(tmp_path / "quorum") as quorum:
        quorum.format(namespace)
        segments = write_recorded(quorum, namespace, current, leave_open=True)
        arguments = ("edits", "convert", quorum.uri, f"json://{tmp_path}/json", "--version-file", version)
        assert run_cli(*arguments).code == 0
        conf = write_site(tmp_path / "conf", {"dfs.ha.tail-edits.in-progress": "true", "hadoop.user.name": "hdfs"})
        code, out, err = run_cli(*arguments, "--force", "--in-progress", "--conf", conf, "--json")
        assert code == 0, err
        assert (json.loads(out)["segments"], json.loads(out)["lastTxid"]) == (len(segments), segments[-1].last)
        uri = quorum.uri
    assert run_cli("edits", "convert", f"json://{tmp_path}/json", tmp_path / "again").code == 0
    for segment in segments:
        content = (tmp_path / "again" / "current" / segment.path.name).read_bytes()
        assert segment.path.read_bytes().startswith(content)
    code, _, err = run_cli("edits", "convert", uri, f"json://{tmp_path}/other", "--version-file", version)
    assert code == 7
    assert "0 of 3 JournalNodes answered" in err
