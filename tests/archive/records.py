"""Records of a catalogue without objects."""

from __future__ import annotations

from archive.catalogue import MAIN, Branch, Catalogue, Commit, EditsRecord, ImageRecord, join_commits


def image(txid: int, branch: str = MAIN, added: int = 0) -> ImageRecord:
    return ImageRecord(f"images/{branch}-{txid}", txid, branch, "00", 10, 5, "00", "VERSION", added)


def edits(first: int, last: int, branch: str = MAIN, at: int = 0, added: int = 0) -> EditsRecord:
    name = f"edits/{branch}-{first}-{last}"
    return EditsRecord(name, first, last, branch, True, "00", 10, 5, "00", at, at, -67, added)


def catalogue(*records: ImageRecord | EditsRecord, branches: tuple[Branch, ...] = ()) -> Catalogue:
    return join_commits({"1": Commit(1, 0, records, branches=branches)})
