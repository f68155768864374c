"""The catalogue, histories and retention: pure functions of records."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.catalogue import (
    MAIN,
    Branch,
    Catalogue,
    Commit,
    EditsRecord,
    ImageRecord,
    decode_commit,
    encode_commit,
    join_commits,
    large_commits,
    lasting_removals,
    replacing,
    with_commits,
)
from archive.errors import ArchiveDamagedError, ArchiveVersionError, NoSuchMomentError
from archive.moments import histories, missing_edits, moments, only_history, plan_restore, view_of
from hadoop_common.names import segment_name
from tests.archive.records import catalogue, edits, image
from tests.depth import examples


def test_commit_round_trip() -> None:
    commit = Commit(7, 8, (image(1), edits(2, 3)), ("edits/x",), (Branch("b", MAIN, 1),), ("catalogue/y",))
    name, text = encode_commit(commit)
    assert decode_commit(name, text) == commit
    with pytest.raises(ArchiveDamagedError, match="the digest in its name"):
        decode_commit(name, text.replace(b'"time": 8', b'"time": 9'))


def test_newer_commit_format_is_rejected() -> None:
    text = b'{"format": 2}'
    name = f"catalogue/1-{__import__('hashlib').sha256(text).hexdigest()[:16]}.json"
    with pytest.raises(ArchiveVersionError, match="has format 2, and this program supports format 1"):
        decode_commit(name, text)


def test_commits_commute_and_removed_objects_stay_removed() -> None:
    commits = {
        "a": Commit(1, 0, (image(1), edits(2, 3))),
        "b": Commit(2, 0, remove=("edits/main-2-3",)),
        "c": Commit(2, 0, (image(1), edits(2, 3)), replaces=("a",)),
        "d": Commit(3, 0, branches=(Branch("b", MAIN, 1),)),
    }
    expected = join_commits(commits)
    assert [each.name for each in expected.records] == ["images/main-1"]
    for order in itertools.permutations(commits):
        assert join_commits({name: commits[name] for name in order}) == expected


def test_commit_can_replace_others() -> None:
    before = {"a": Commit(1, 0, (image(1),)), "b": Commit(2, 0, (edits(2, 3),))}
    whole = Commit(3, 0, (image(1), edits(2, 3)), replaces=("a", "b"))
    assert join_commits({**before, "c": whole}).records == join_commits(before).records
    assert join_commits({"c": whole}).records == join_commits(before).records
    assert join_commits({**before, "c": whole}).commits == ("c",)


def test_restore_plan_has_the_newest_older_image_and_later_edits() -> None:
    view = view_of(catalogue(image(10), image(30), edits(11, 20), edits(21, 30), edits(31, 40)), MAIN)
    plan = plan_restore(view, 35)
    assert (plan.base.txid, [(each.record.first, each.last) for each in plan.pieces]) == (30, [(31, 35)])
    plan = plan_restore(view, 29)
    assert (plan.base.txid, [(each.record.first, each.last) for each in plan.pieces]) == (10, [(11, 20), (21, 29)])
    assert plan_restore(view, 10).pieces == ()
    assert moments(view) == [range(10, 41)]


def test_gap_is_named_and_older_images_can_be_used() -> None:
    view = view_of(catalogue(image(10), image(30), edits(11, 35)), MAIN)
    assert plan_restore(view, 33).base.txid == 30
    gap = view_of(catalogue(image(10), edits(11, 20), edits(25, 30)), MAIN)
    with pytest.raises(NoSuchMomentError, match="transaction 21 is missing"):
        plan_restore(gap, 28)
    with pytest.raises(NoSuchMomentError, match="its oldest image is newer"):
        plan_restore(gap, 9)
    assert moments(gap) == [range(10, 21)]


def test_branch_shares_the_objects_before_its_fork() -> None:
    found = catalogue(
        image(10), edits(11, 30), image(25), edits(21, 40, "b", added=5), branches=(Branch("b", MAIN, 20),)
    )
    assert histories(found) == ["b", MAIN]
    with pytest.raises(NoSuchMomentError, match=r"several histories, because .* before they were archived: b, main"):
        only_history(found)
    # main has no objects after the fork
    assert only_history(catalogue(edits(11, 20), edits(21, 40, "b"), branches=(Branch("b", MAIN, 20),))) == "b"
    ours = view_of(found, "b")
    assert [each.txid for each in ours.images] == [10]
    assert [(each.record.branch, each.last) for each in plan_restore(ours, 35).pieces] == [(MAIN, 20), ("b", 35)]
    assert plan_restore(view_of(found, MAIN), 28).base.txid == 25
    with pytest.raises(NoSuchMomentError, match="no branch 'c'"):
        view_of(found, "c")


def test_newer_of_two_images_of_a_transaction_is_the_base() -> None:
    before, after = image(10, added=1), replace(image(10, added=2), name="images/after", version="NEW")
    assert plan_restore(view_of(catalogue(after, before), MAIN), 10).base.version == "NEW"


def test_missing_edits_are_those_never_archived() -> None:
    assert missing_edits(catalogue(image(10), edits(11, 20), edits(25, 30)), MAIN) == [range(21, 25)]
    assert missing_edits(catalogue(image(10), edits(15, 20)), MAIN) == [range(11, 15)]
    assert missing_edits(catalogue(image(10), image(30), edits(11, 20)), MAIN) == [range(21, 31)]
    removed = f"edits/{segment_name(21, 24)}-0123456789abcdef.zst"
    pruned = join_commits({"a": Commit(1, 0, (image(10), edits(11, 20), edits(25, 30)), (removed,))})
    assert missing_edits(pruned, MAIN) == []


def test_full_commit_omits_removed_parts_of_finalized_segments() -> None:
    done, still, pruned = "edits/edits_inprogress_21-aa", "edits/edits_inprogress_31-bb", "edits/edits_1-9-cc"
    found = join_commits({"a": Commit(1, 0, (image(10), edits(11, 30)), (done, still, pruned))})
    assert lasting_removals(found) == (pruned, still)


@given(st.integers(0, 1 << 30))
@examples(200)
def test_replacing_all_but_large_commits_keeps_the_records(seed: int) -> None:
    """For random writers, joining commits one by one, with replacements by size, has the same result as joining all
    together.
    """
    rng = random.Random(seed)
    every: dict[str, Commit] = {}
    present: dict[str, Commit] = {}
    joined = Catalogue()
    txid = 0
    for number in range(1, rng.randint(2, 60)):
        added: list[ImageRecord | EditsRecord] = []
        for _ in range(rng.choice([0, 1, 1, 1, 30])):
            added.append(replace(edits(txid + 1, txid + 2), finalized=rng.random() < 0.5))
            txid += 2
        if rng.random() < 0.1:
            added.append(image(txid))
        removed = [each.name for each in joined.records if rng.random() < 0.05]
        commit = Commit(number, 0, tuple(added), tuple(removed))
        every[str(number)] = present[str(number)] = commit
        joined = with_commits(joined, {str(number): commit})
        assert joined == join_commits(present)
        if rng.random() < 0.2:
            small = dict(present)
            with mock.patch("archive.catalogue._MIN_LARGE", 5):
                left = large_commits(small)
            for name in left:
                del small[name]
            records, lasting = replacing(joined, small.values(), left.values())
            whole = Commit(number, 0, records, lasting, replaces=tuple(small))
            assert join_commits({**present, f"{number}w": whole}).records == joined.records
            present = {**left, f"{number}w": whole}
            joined = join_commits(present)
        assert joined.records == join_commits(every).records


def test_large_commit_is_kept_until_the_others_are_as_large() -> None:
    def of(count: int) -> Commit:
        return Commit(1, 0, tuple(edits(number, number) for number in range(count)))

    assert list(large_commits({"a": of(10_000), "b": of(1_000), "c": of(30)})) == ["a", "b"]
    assert list(large_commits({"a": of(10_000), "b": of(2_000)})) == []
    assert list(large_commits({"a": of(100)})) == []
