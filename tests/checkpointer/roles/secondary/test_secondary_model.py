"""Random histories of a NameNode and its secondary: no image of a lost past is offered, and no loss is falsely
reported.
"""

from __future__ import annotations

import random

import pytest

from checkpointer.roles.secondary.set_back import SecondaryPast
from checkpointer.set_back.proof import PastFinding
from engine.txn_runs import ImageId, run_of_segment
from tests.checkpointer.secondary_model import FinalizedWitness, run_history, run_idle_history
from tests.checkpointer.set_back_model import ModelNamenode, ModelProvenances
from tests.depth import SEED, scaled

EACH = 100
BLOCKS = scaled(100_000, quick=100) // EACH
FIRST_SEED = SEED * 1_000_000
IDLE = scaled(10_000, quick=100)


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + BLOCKS * EACH, EACH))
def test_no_image_of_a_lost_past_is_offered(first: int) -> None:
    taken = lost = set_backs = 0
    for seed in range(first, first + EACH):
        try:
            namenode, secondary = run_history(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        taken, lost = taken + secondary.taken, lost + secondary.findings.count(PastFinding.LOST)
        set_backs += namenode.set_backs
    # the model covers the interesting cases
    assert set_backs > EACH
    assert lost > EACH // 4
    assert taken > EACH


def test_secondary_recovers_after_a_set_back() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + IDLE):
        namenode, secondary = run_history(seed)
        namenode.telling, namenode.silent, secondary.hasty = 1.0, 0.0, 0.0
        for _ in range(3):
            namenode.write(3)
            secondary.checkpoint()
            secondary.upload()
        assert max(secondary.images) in namenode.images, f"seed {seed}"


@pytest.mark.parametrize(
    ("extra", "restarts"),
    [
        # a NameNode process that is not restarted has only one past
        ((0,), False),
        # a NameNode keeps a million transactions by default
        ((10_000,), True),
    ],
)
def test_idle_cluster_is_never_reported_as_set_back(extra: tuple[int, ...], restarts: bool) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + IDLE):
        secondary = run_idle_history(seed, extra=extra, restarts=restarts)
        assert secondary.findings == [], f"seed {seed}"
        assert secondary.taken > 0, f"seed {seed}"


def test_purge_in_an_idle_cluster_is_not_reported_as_set_back() -> None:
    """No edits or images remain, and the process is new, so a comparison is impossible."""
    findings = [
        finding
        for seed in range(FIRST_SEED, FIRST_SEED + IDLE)
        for finding in run_idle_history(seed, extra=(0,), restarts=True).findings
    ]
    assert set(findings) == {PastFinding.SILENT}


@pytest.mark.parametrize("restarted", [False, True])
def test_process_restarted_since_its_query_is_not_recorded(restarted: bool) -> None:
    """A NameNode that is resumed from a memory snapshot would count as the process that was queried before."""
    namenode = ModelNamenode(random.Random(SEED), telling=1.0, silent=0.0, extra=(10_000,))
    namenode.start()
    namenode.write(3)
    namenode.save()
    namenode.roll()
    claims, witness = ModelProvenances(), FinalizedWitness(namenode, hasty=0.0)
    base = ImageId(max(namenode.images), namenode.images[max(namenode.images)])
    segment = next(each for each in namenode.segments if each.first > base.txid)
    image = ImageId(segment.last, namenode.states[segment.last])
    past = SecondaryPast(claims, lambda: [base])
    life = witness.active_life()
    namenode.starts["nn1"] += restarted
    past.fetched(base, life, witness)
    past.made(image, base, [run_of_segment(segment)], life)
    assert past.compare(image, witness).holds
    assert [claims.known[md5].life for md5 in (base.md5, image.md5)] == [None if restarted else life] * 2
