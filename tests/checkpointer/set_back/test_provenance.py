"""Provenances of images, stored next to them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from checkpointer.set_back.provenance import ProvenanceStore, held_images, read_provenances
from checkpointer.storage.lost_pasts import PROVENANCE
from engine.txn_runs import ImageId, Provenance
from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from tests.checkpointer.set_back_support import OURS, STRETCHES, image, noted
from tests.checkpointer.storage_support import put_image


def test_provenances_survive_a_restart(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    md5 = "0123456789abcdef" * 2
    for folder in folders:
        image(folder, 9, md5)
    claim = Provenance(STRETCHES, ImageId(4, "cc" * 16), STRETCHES[:1], ("http://nn:9870", 1_700_000_000_123))
    ProvenanceStore(lambda: folders).add(md5, claim)
    (folders[0] / PROVENANCE).write_text("{")
    again = ProvenanceStore(lambda: folders)
    assert again.of(md5) == claim
    assert again.of("ff" * 16) is None
    # entries of missing images are dropped too
    other = "ff" * 16
    for folder in folders:
        (folder / image_name(9)).unlink()
        image(folder, 12, other)
    again.add(other, Provenance(STRETCHES[1:], None))
    assert read_provenances(folders) == {other: Provenance(STRETCHES[1:], None)}
    again.forget()
    assert again.of(other) is None


@pytest.mark.parametrize("life", [[], ["nn"], ["nn", "soon"], ["nn", math.inf], 1, {}, {"nn": 1}])
def test_damaged_provenance_is_ignored(tmp_path: Path, life: object) -> None:
    claim = {"stretches": [], "base": None, "life": life}
    (tmp_path / PROVENANCE).write_text(json.dumps({"format": 1, "images": {"11" * 16: claim}}))
    assert read_provenances([tmp_path]) == {}


def test_provenance_without_a_format_has_format_1(tmp_path: Path) -> None:
    claim = Provenance(STRETCHES, None)
    (tmp_path / PROVENANCE).write_text(json.dumps({"images": {"11" * 16: claim.to_json()}}))
    assert read_provenances([tmp_path]) == {"11" * 16: claim}


def test_unreadable_image_keeps_the_provenance_of_another(tmp_path: Path) -> None:
    known = Provenance(noted(*OURS).runs(), ImageId(0, "00"))
    digest = image(tmp_path, 5, "11" * 16).with_name("fsimage_0000000000000000005.md5")
    book = ProvenanceStore(lambda: [tmp_path])
    book.add("11" * 16, known)
    digest.write_bytes(b"damaged")
    book.add("22" * 16, known)
    assert (
        ProvenanceStore(lambda: [tmp_path]).of("11" * 16) == ProvenanceStore(lambda: [tmp_path]).of("22" * 16) == known
    )


def test_held_images_have_a_digest_and_are_no_rollback_images(tmp_path: Path) -> None:
    for txid in (3, 9):
        image(tmp_path, txid, f"{txid:032x}")
    image(tmp_path, 12, "ee" * 16, rollback=True)
    md5_path(put_image(tmp_path, 20)).unlink()
    assert held_images([tmp_path]) == [ImageId(9, f"{9:032x}"), ImageId(3, f"{3:032x}")]
