"""What a NameNode answers about the past of an image, without needless requests."""

from __future__ import annotations

from checkpointer.set_back.namenode_witness import NamenodeWitness
from hadoop_rpc.errors import RpcError
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog

NOBODY = "http://127.0.0.1:1"


def witness(*logs: RemoteEditLog) -> NamenodeWitness:
    return NamenodeWitness(NOBODY, lambda since: EditLogManifest(logs), lambda: 20, timeout=60)


def test_purged_image_is_not_requested() -> None:
    """A NameNode keeps the edits that follow its oldest image, so no HTTP request is needed."""
    assert witness(RemoteEditLog(11, 20, False)).image_md5(9) == ""
    for held in (witness(RemoteEditLog(11, 20, False)).image_md5(10), witness().image_md5(9)):
        assert held is None


def test_unavailable_manifest_gives_no_digest() -> None:
    def down(since: int) -> EditLogManifest:
        raise RpcError("down")

    assert NamenodeWitness(NOBODY, down, lambda: 20, timeout=60).image_md5(9) is None
