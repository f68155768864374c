"""Links from problems to the sections of the runbook."""

from __future__ import annotations

import re
from pathlib import Path

from console.runbook import document
from node_state.alarm_kinds import ALARM_KINDS
from tests.console.console_support import client_of, daemon_state
from tests.tools.hints import PACKAGES

ROOT = Path(__file__).parents[2]


def test_attention_items_link_to_their_runbook_sections() -> None:
    page = client_of(daemon_state()).get("/").text
    links = re.findall(r'href="docs/runbook\.md#([\w-]+)">Runbook<span', page)
    assert links == [
        "disk-full-or-broken",
        "a-journalnode-does-not-answer",
        "the-namenode-refuses-an-image-403-409-410-417",
    ]
    client = client_of(daemon_state())
    runbook = client.get("/docs/runbook.md").text
    assert all(f'id="{link}"' in runbook for link in links)


def test_every_alarm_kind_has_a_section_and_every_alarm_a_known_kind() -> None:
    def exists(section: str) -> bool:
        page, _, anchor = section.partition("#")
        found = document(page)
        return found is not None and f'id="{anchor}"' in found.body

    assert [kind.name for kind in ALARM_KINDS.values() if not exists(kind.section)] == []
    sources = "".join(path.read_text() for path in (ROOT / "console").rglob("*_page*.py"))
    named = set(re.findall(r'"([a-z]+\.md#[\w-]+)"\)?,?$', sources, re.MULTILINE))
    assert named
    assert {each for each in named if not exists(each)} == set()
    code = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    kinds = set(re.findall(r'\bAlarm\([^()]*, "(\w+)"\)', code))
    assert {"late", "space", "configuration"} <= kinds <= set(ALARM_KINDS)
