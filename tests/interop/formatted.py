"""Freshly formatted storage for NameNodes: Hadoop formats one directory, and each further cluster receives a copy.

A format needs a separate JVM, which takes time. VERSION and the image of each copy receive other ids of the namespace,
cluster and block pool, so that two clusters of a test are different.
"""

from __future__ import annotations

import atexit
import hashlib
import random
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from hadoop_common.names import image_name
from hadoop_common.storage_info import read_version
from image_format.md5_file import write_md5_file
from image_format.varint import encode_varint
from tests.interop.hadoop_conf import HadoopConf

_OWN_FORMAT = ("dfs.image.compress", "dfs.namenode.edits.dir", "hadoop.security.authentication")
"""Keys that change the files of a format, or that make the format require a login."""
_SHARED = "dfs.namenode.shared.edits.dir"
_FORMATTED: dict[tuple[str, int], Path] = {}
_random = random.SystemRandom()


def provide_storage(conf: HadoopConf, make: Callable[[], object]) -> None:
    """Fill the NameNode's storage directory, and the directory that it shares with another NameNode, as a format does.

    Args:
        conf: configuration of the NameNode.
        make: runs Hadoop's format with `conf`.
    """
    stores = [conf.name_dir, *([conf.shared_edits_dir] if _SHARED in conf.properties else [])]
    if not _can_be_copied(conf):
        make()
        return
    key = (conf.release.version, len(stores))
    kept = _FORMATTED.get(key)
    if kept is None:
        make()
        kept = Path(tempfile.mkdtemp(prefix="formatted-"))
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
        for number, store in enumerate(stores):
            shutil.copytree(store, kept / str(number))
        _FORMATTED[key] = kept
        return
    old = read_version(kept / "0" / "current" / "VERSION").namespace_id
    namespace = _like(old)
    cluster, pool = f"CID-{uuid.uuid4()}", f"BP-{namespace}-127.0.0.1-{_random.randrange(10**12, 10**13)}"
    for number, store in enumerate(stores):
        shutil.copytree(kept / str(number), store, dirs_exist_ok=True)
        _identify(store / "current" / "VERSION", {"namespaceID": namespace, "clusterID": cluster, "blockpoolID": pool})
    _write_namespace(conf.name_dir / "current" / image_name(0), old, namespace)


def _can_be_copied(conf: HadoopConf) -> bool:
    several = any("," in value for key, value in conf.properties.items() if key.startswith("dfs.namenode.name.dir"))
    shared_elsewhere = not conf.properties.get(_SHARED, "file:").startswith("file:")
    return not several and not shared_elsewhere and not any(key in conf.properties for key in _OWN_FORMAT)


def _like(namespace: int) -> int:
    """Return another namespace id with a varint of the same length."""
    while True:
        drawn = _random.randrange(1, 1 << 31)
        if drawn != namespace and len(encode_varint(drawn)) == len(encode_varint(namespace)):
            return drawn


def _identify(version: Path, values: dict[str, object]) -> None:
    text = version.read_text()
    for key, value in values.items():
        text = re.sub(rf"(?m)^{key}=.*$", f"{key}={value}", text)
    version.write_text(text)


def _write_namespace(image: Path, old: int, new: int) -> None:
    """Replace the id in the first field of the first section, NS_INFO."""
    data = image.read_bytes()
    before, after = (b"\x08" + encode_varint(value) for value in (old, new))
    assert data.index(before) < 16
    data = data.replace(before, after, 1)
    image.write_bytes(data)
    write_md5_file(image, hashlib.md5(data).digest())
