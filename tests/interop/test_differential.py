"""Random operations on a real NameNode: our merge of its image and edits against what it makes of them itself.

`make differential SEEDS=100` runs more than CI does; FIRST_SEED moves on.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from checkpointer.merge import merge
from hadoop_common.names import image_name
from journal.segment_file import list_segments, read_transactions, select_segments
from tests.checkpointer.cli_runner import run_cli
from tests.checkpointer.recorded_cases import imgcmp
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf

pytestmark = [pytest.mark.interop]

STEPS = 600
FIRST = int(os.environ.get("FIRST_SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SEEDS", "2")))


def save_namespace(client: HdfsClient) -> None:
    client.admin("-safemode", "enter").checked()
    client.admin("-saveNamespace").checked()


def change_what_the_image_has(client: HdfsClient) -> None:
    """Attributes, renames and deletions of inodes and snapshots that are in the base image."""
    client.shell("-mkdir", "/moved").checked()
    client.shell("-chmod", "-R", "700", "/base/t0").checked()
    client.shell("-mv", "/base/t1/n*", "/moved").checked()
    client.shell("-rm", "-r", "/base/t2/n*").checked()
    client.shell("-createSnapshot", "/base/t3", "late").checked()
    client.shell("-mv", "/moved", "/base/t3/back").checked()
    client.shell("-chown", "-R", "bob:users", "/base/t3").checked()
    client.shell("-deleteSnapshot", "/base/t3", "late").checked()


@pytest.mark.parametrize("seed", SEEDS)
def test_our_merge_is_what_the_namenode_saves(
    conf: HadoopConf, client_jvm: ClientJvm, seed: int, tmp_path: Path
) -> None:
    before, ours = tmp_path / "before", tmp_path / "ours"
    ours.mkdir()
    with NameNode(conf) as node:
        client = client_jvm.of(conf)
        # a base image that has something in it, snapshots included
        client.load(STEPS // 2, seed=seed, path="/base")
        save_namespace(client)
        client.admin("-safemode", "leave").checked()
        base = node.images[-1]
        client.load(STEPS, seed=seed + 1_000_000, path="/more")
        change_what_the_image_has(client)
        shutil.copytree(node.current, before)
        # after a restart the NameNode's namespace is the image and the edits, replayed
        node.restart()
        client.shell("-ls", "/")
        save_namespace(client)
        last = node.images[-1]
        result = merge(
            before / image_name(base),
            read_transactions(select_segments(list_segments(node.current), base + 1, last), base + 1),
            [ours],
        )
        assert result.txid == last
        xml = tmp_path / "edits.xml"
        documents = []
        for segment in select_segments(list_segments(node.current), base + 1, last):
            assert run_cli("edits", "dump", segment.path, "--format", "xml", "--output", xml, "--force").code == 0
            documents.append(xml.read_text())
        xml.write_text(joined(documents))
        theirs, merged = (imgcmp.Image(str(folder / image_name(last))) for folder in (node.current, ours))
    assert list(imgcmp.compare(theirs, merged, clock=imgcmp.Clock(str(xml)))) == []


def joined(documents: list[str]) -> str:
    """One EDITS document of several."""
    head, _, _ = documents[0].partition("<RECORD>")
    records = [text[text.index("<RECORD>") : text.rindex("</RECORD>") + len("</RECORD>")] for text in documents]
    return head + "\n".join(records) + "</EDITS>\n"
