"""Transfers of 200 MB in both directions, in separate processes whose memory must not grow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SIZE = 200 << 20
# allowed memory growth of a process, which contains the server and the client, during a transfer of 200 MB
CEILING = 48 << 20

SCRIPT = """
import resource, sys
from pathlib import Path
from checkpointer.transfer import UploadResult, download_image, upload_image
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, make_store, padded_image, serve
import hashlib

root, size, direction = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
warm = NEW_IMAGE.read_bytes()
md5 = hashlib.md5(warm).hexdigest()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
image = root / "image"
big_md5 = padded_image(image, size)
with serve(make_store(root / "warm")) as served:
    assert upload_image(served.url, NEW_IMAGE, md5, NEW_TXID, INFO) is UploadResult.SUCCESS
with serve(make_store(root / "server")) as served:
    before = peak()
    if direction == "up":
        assert upload_image(served.url, image, big_md5, NEW_TXID, INFO) is UploadResult.SUCCESS
        assert served.store.received == [(NEW_TXID, "IMAGE", big_md5, size)]
    else:
        placed = served.store.directories[0] / NEW_IMAGE.name
        image.rename(placed)
        placed.with_name(placed.name + ".md5").write_text(f"{big_md5} *{placed.name}\\n")
        (root / "target").mkdir()
        assert download_image(served.url, NEW_TXID, INFO, [root / "target"]).size == size
    print(peak() - before)
"""


@pytest.mark.parameters(1)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_memory_of_a_transfer_is_limited(tmp_path, direction):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(SIZE), direction]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < CEILING
