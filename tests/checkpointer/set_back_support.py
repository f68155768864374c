"""Transactions and segments of a NameNode in memory, a witness of both, and provenances, for tests of the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.txn_runs import ImageId, Provenance, TxnRecorder
from hadoop_common.names import image_name, md5_name
from image_format.md5_file import md5_path
from journal.attribute_ops import SetPermissionsOp
from journal.file_ops import DeleteOp
from journal.operation import EditOp
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp
from tests.checkpointer.set_back_model import ModelProvenances, ModelSegment
from tests.checkpointer.storage_support import put_image


def chmod(txid: int, mode: int = 0o700) -> EditOp:
    return SetPermissionsOp(txid=txid, src="/a", mode=mode)


def delete(txid: int, at: int = 1000) -> EditOp:
    return DeleteOp(txid=txid, path="/a", timestamp=at)


def segment(first: int, *middle: EditOp, in_progress: bool = False) -> ModelSegment:
    ops: list[EditOp] = [StartLogSegmentOp(txid=first), *middle]
    if not in_progress:
        ops.append(EndLogSegmentOp(txid=first + len(ops)))
    return ModelSegment(first, ops, in_progress)


def noted(*segments: ModelSegment, base: int = 0) -> TxnRecorder:
    recorder = TxnRecorder()
    recorder.begin(ImageId(base, "aa"))
    apply(recorder, segments)
    return recorder


def apply(recorder: TxnRecorder, segments: Sequence[ModelSegment]) -> None:
    for each in segments:
        for _ in recorder.record_all(each.read(each.first)):
            pass
        recorder.mark_applied(each.last)


@dataclass
class Witness:
    present: Sequence[ModelSegment]
    last: int | None = None
    images: dict[int, str] | None = None
    asked: list[int] = field(default_factory=list)
    life: int = 0

    def segments(self, from_txid: int) -> Sequence[ModelSegment]:
        return [each for each in self.present if each.last >= from_txid]

    def newest(self) -> int | None:
        return self.last

    def lives(self) -> Mapping[str, int]:
        return {"nn": self.life}

    def active_life(self) -> tuple[str, int] | None:
        return ("nn", self.life) if self.life else None

    def image_md5(self, txid: int) -> str | None:
        self.asked.append(txid)
        return None if self.images is None else self.images.get(txid, "")


class Provenances(ModelProvenances):
    """A `ProvenanceStore` with the provenance of one image."""

    def __init__(self, md5: str, claim: Provenance) -> None:
        super().__init__()
        self.add(md5, claim)


OURS = (segment(1, delete(2), chmod(3)), segment(5, chmod(6), delete(7), delete(8)))


def image(folder: Path, txid: int, md5: str, rollback: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / image_name(txid, rollback)
    made = put_image(folder, txid)
    made.rename(path)
    md5_path(made).rename(md5_path(path))
    path.with_name(md5_name(path.name)).write_text(f"{md5} *{path.name}\n")
    return path


STRETCHES = noted(*OURS).runs()
