"""Recorded upgrades, and the layout of an image."""

from __future__ import annotations

from tests.recorded_cases import Case, all_cases, imgcmp, same_layout

UPGRADES = [case for case in all_cases() if not same_layout(case)]


def layout_after(case: Case) -> int:
    return int(imgcmp.Image(str(case.image("after"))).layout)
