"""The cache of users' groups in a served namespace."""

from __future__ import annotations

import pytest

from checkpointer.serving import group_cache
from checkpointer.serving.group_cache import GroupCache


def test_groups_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_cache, "MAX_USERS", 2)
    asked: list[str] = []
    now = [0.0]

    def groups_of(user: str) -> frozenset[str]:
        asked.append(user)
        return frozenset({user})

    cache = GroupCache(groups_of, 300, lambda: now[0])
    for user in ("a", "a", "b", "c", "b", "a"):
        assert cache.of(user) == {user}
    assert asked == ["a", "b", "c", "a"]
    now[0] = 300.0
    assert cache.of("a") == {"a"}
    assert asked[4:] == ["a"]
