"""Random histories of a NameNode that is set back: the NameNode is offered only images of its current past."""

from __future__ import annotations

import pytest

from tests.checkpointer.set_back_model import run_history
from tests.depth import SEED, scaled

EACH = 250
BLOCKS = scaled(100_000, quick=250) // EACH
FIRST_SEED = SEED * 1_000_000


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + BLOCKS * EACH, EACH))
def test_no_image_of_a_lost_past_is_offered(first: int) -> None:
    taken = begun = set_backs = 0
    for seed in range(first, first + EACH):
        try:
            namenode, node = run_history(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        taken, begun, set_backs = taken + node.taken, begun + node.begun, set_backs + namenode.set_backs
    # the model covers the interesting cases
    assert set_backs > EACH
    assert begun > EACH // 4
    assert taken > EACH // 2


def test_node_recovers_after_a_set_back() -> None:
    """Once the NameNode's past no longer changes, an image of this past arrives within a few steps."""
    for seed in range(FIRST_SEED, FIRST_SEED + scaled(10_000, quick=50)):
        namenode, node = run_history(seed)
        namenode.telling, namenode.silent, node.hasty = 1.0, 0.0, 0.0
        for _ in range(20):
            namenode.write(3)
            namenode.roll()
            node.tail()
            node.checkpoint()
            node.upload()
        assert max(node.images) in namenode.images, f"seed {seed}"
