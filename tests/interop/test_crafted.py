"""Crafted operation lists, replayed by a real NameNode and by our merge: both make the same image, or both refuse the
same operation.

`make differential MODES=crafted SEEDS=200` replays 20,000 lists on each release; SEED=2 replays other lists. If both
refuse an operation, the list is replayed without that operation. `crafted_replay` lists the permitted differences and
the reasons.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from journal.ops import ConcatDeleteOp, EditOp
from tests.depth import SEED, deep, scaled
from tests.engine.op_makers import LATER, mkdir, rename_old
from tests.engine.snapshot_support import create, remove
from tests.interop.crafted_lists import Crafter
from tests.interop.crafted_replay import CraftedReplay, Verdict
from tests.interop.crafted_values import keys_of
from tests.interop.hadoop_home import NEWEST, OLDEST, SERVER, skip_without

pytestmark = [pytest.mark.interop]

FIRST = 10_000 * SEED
SEEDS = range(FIRST, FIRST + int(os.environ.get("SEEDS", scaled(100, quick=1))))
LISTS = 100 if deep() or "SEEDS" in os.environ else 50
"""Number of lists for a seed."""
_SHOWN = 3
RELEASES = (OLDEST, NEWEST) if SERVER is NEWEST else (SERVER,)


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.version)
def crafted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CraftedReplay]:
    if "crafted" not in os.environ.get("MODES", "crafted").split():
        pytest.skip("MODES does not name crafted")
    skip_without(request.param)
    running = CraftedReplay(tmp_path_factory.mktemp("crafted"), request.param)
    yield running
    running.close()


def difference(crafted: CraftedReplay, ops: list[EditOp], verdicts: Counter[Verdict]) -> list[EditOp]:
    """Return the list that shows a difference, without operations that both sides refuse; empty if nothing differs."""
    while ops:
        found = crafted.compare(ops)
        verdicts[found.verdict] += 1
        if found.verdict is Verdict.DIFFERENT:
            return ops
        if found.refused_at is None:
            return []
        ops = [op for op in ops if op.txid != found.refused_at]
    return []


def minimised(crafted: CraftedReplay, ops: list[EditOp]) -> list[EditOp]:
    """Return the shortest tried list of operations that still shows a difference."""
    for op in list(ops):
        fewer = [each for each in ops if each is not op]
        if fewer and crafted.compare(fewer).verdict is Verdict.DIFFERENT:
            ops = fewer
    return ops


def shown(crafted: CraftedReplay, seed: int, ops: list[EditOp]) -> str:
    crafted.keys = keys_of(seed, crafted.release.layout)
    least = minimised(crafted, ops)
    found = crafted.compare(least)
    return "\n".join([f"list {seed}: {found.details[:2000]} {dict(crafted.keys)}", *(f"    {op}" for op in least)])


@pytest.mark.parametrize("seed", SEEDS)
def test_crafted_operation_lists_give_the_same_image(
    crafted: CraftedReplay, seed: int, record_property: Callable[[str, object], None]
) -> None:
    verdicts: Counter[Verdict] = Counter()
    different: dict[int, list[EditOp]] = {}
    numbers = itertools.count(100 * seed)
    while verdicts.total() < LISTS:
        number = next(numbers)
        crafted.keys = keys_of(number, crafted.release.layout)
        if found := difference(crafted, Crafter(number, crafted.release.layout).make(), verdicts):
            different[number] = found
    for verdict, count in verdicts.items():
        record_property(verdict.name, count)
    texts = [shown(crafted, number, ops) for number, ops in list(different.items())[:_SHOWN]]
    assert not different, "\n".join([f"{len(different)} of {verdicts.total()} lists differ", *texts])
    assert verdicts[Verdict.SAME]


def test_a_created_list_entry_left_by_concat_is_healed(crafted: CraftedReplay) -> None:
    """Hadoop 2.7 stops when the directory is renamed out of its snapshot."""
    if crafted.release is not OLDEST:
        pytest.skip("Hadoop 3 removes the entry from the list")
    crafted.keys = {}
    moved = rename_old("/ü/ö", "/d2/in/last")
    concat = ConcatDeleteOp(trg="/d2/in/b", srcs=("/d2/in/last",), timestamp=LATER)
    assert crafted.compare([moved, concat, rename_old("/d2/in", "/out")]).verdict is Verdict.HEALED


def test_a_skipped_deletion_of_a_snapshot_keeps_the_count(crafted: CraftedReplay) -> None:
    """From Hadoop 3.4 on, a NameNode counts one snapshot less and then cannot write an image."""
    if crafted.release.layout > -67:
        pytest.skip("older releases refuse the deletion of a missing snapshot")
    crafted.keys = {}
    given = [create("s2", "/d2"), remove("s2", "/d2"), remove("s2#4", "/d2")]
    assert crafted.compare(given).verdict is Verdict.HEALED


def test_the_comparison_finds_a_difference(crafted: CraftedReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the comparison can fail."""
    monkeypatch.setattr("engine.namespace.namespace.MODE_BITS", 0o17)
    assert crafted.compare([mkdir("/new", 20_000)]).verdict is Verdict.DIFFERENT
