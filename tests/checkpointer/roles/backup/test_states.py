"""States of the backup node's stream and their transitions."""

from __future__ import annotations

import itertools

import pytest

from checkpointer.roles.backup.states import TRANSITIONS, BackupState, StreamEvent, next_state


@pytest.mark.parametrize(("state", "event"), list(itertools.product(BackupState, StreamEvent)))
def test_states_follow_the_transition_table(state: BackupState, event: StreamEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(ValueError, match="cannot happen"):
            next_state(state, event)


def test_only_convergence_leads_to_in_sync() -> None:
    leading = {key for key, following in TRANSITIONS.items() if following is BackupState.IN_SYNC}
    assert leading == {
        (BackupState.JOURNAL_ONLY, StreamEvent.CONVERGED),
        (BackupState.IN_SYNC, StreamEvent.SEGMENT_CONTINUES),
    }
    assert all(
        TRANSITIONS[state, StreamEvent.STREAM_BROKEN] is BackupState.DROP_UNTIL_NEXT_ROLL for state in BackupState
    )
