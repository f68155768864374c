"""The archive in `make demo`, which finds and undoes the transaction that deleted a directory, and lists the files."""

from __future__ import annotations

import json
from typing import Any

from hadoop_common.names import image_name
from hadoop_common.quantities import counted
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import LocatedInode
from namenode_stub.demo_stage import DemoError, DemoStage, perform, tree


def undo_deletion(demo: DemoStage, url: str, path: str) -> None:
    """Delete `path` on the stub at `url`, archive the storage directory, and restore it without the deletion.

    Raises:
        DemoError: a command failed, or the restored namespace differs from the expected namespace.
    """
    below = [each["path"] for each in tree(url) if each["path"].startswith(f"{path}/")]
    perform(url, "delete", path=path, recursive=True)
    perform(url, "mkdirs", path="/later")
    storage, archive, out = (str(demo.scratch / name) for name in ("nn1", "archive", "restored"))
    _archive(demo, "add", storage, "--archive", archive, "--in-progress")
    entries = _archive(demo, "log", "--archive", archive, "--path", path, "--op", "delete")["entries"]
    txid = entries[-1]["txid"]
    demo.console.print(f"  {path} was deleted with {counted(len(below), 'inode')} by transaction {txid}")
    made = _archive(demo, "restore", "--archive", archive, "--without", str(txid), "--out", out)
    with ImageFile.open(demo.scratch / "restored" / "current" / image_name(made["txid"])) as image:
        browser = ImageBrowser(image)
        missing = [each for each in (*below, "/later") if not isinstance(browser.find(each.encode()), LocatedInode)]
    if missing:
        raise DemoError(f"the restored namespace lacks {counted(len(missing), 'path')}, the first is {missing[0]}")
    demo.console.print(
        f"  restored in {made['seconds']:.1f} s without that transaction: all {counted(len(below), 'inode')} are back, "
        "and the directory made later is kept"
    )


def _archive(demo: DemoStage, command: str, *arguments: str) -> Any:
    _, text = demo.run_process("checkpointer", "archive", command, *arguments, "--json")
    return json.loads(text)
