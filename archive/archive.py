"""An archive as a whole: its identity, its catalogue, and access to its objects."""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any

from archive.catalogue import (
    COMMITS,
    FORMAT,
    Branch,
    Catalogue,
    Commit,
    Record,
    check_format,
    decode_commit,
    encode_commit,
    join_commits,
    large_commits,
    replacing,
    short_digest,
    with_commits,
)
from archive.encryption import ArchiveKey, DecryptingStream, EncryptingStream
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.frames import FrameReader, FrameWriter
from archive.object_store import ObjectStore, built, opened_store
from hadoop_common.file_faults import FileFaultError
from hadoop_common.names import VERSION
from hadoop_common.storage_info import StorageInfo, parse_version

IDENTITY = "archive.json"
_COMPACT_AFTER = 64
"""Number of commits at which one commit replaces them."""
_STEP = 1 << 20
_LISTINGS = 20
_OTHER_ARCHIVE = "Specify the archive of this cluster, or a new archive."
_REPLACED = f"All images belong to this cluster: `checkpointer archive check --repair` restores {IDENTITY}."
_SEVERAL = (
    "`checkpointer archive split --block-pool ID --to NEW_ARCHIVE` moves the objects of one cluster to a new "
    "archive; `checkpointer archive check` lists the clusters."
)


@contextmanager
def _full_disk_of(path: Path) -> Iterator[None]:
    """Name the folder of `path` in the error of a full disk; other errors may concern a file that the caller reads."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT) or fault.filename is not None:
            raise
        raise FileFaultError(fault, path.parent, "cannot be written") from fault


@dataclass(frozen=True, slots=True)
class ArchiveIdentity:
    """Namespace of an archive, and a value that identifies the key of its objects ("" for no encryption)."""

    namespace_id: int
    cluster_id: str
    key_check: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored object: its name, its size in bytes and its SHA-256, as in records."""

    name: str
    stored: int
    sha256: str


class Archive:
    """An archive in a store; every method can raise ArchiveError.

    Args:
        immutable: whether objects are never removed, as in stores with an object lock.
    """

    def __init__(self, store: ObjectStore, key: ArchiveKey | None = None, *, immutable: bool = False) -> None:
        self.store = store
        self.immutable = immutable
        self._key = key
        # commits are immutable, so each commit is read once
        self._commits: dict[tuple[str, int], Commit] = {}
        self._catalogue: Catalogue | None = None
        self._pinned: dict[str, bytes] = {}

    def identity(self) -> ArchiveIdentity | None:
        """Return the identity; None for an archive that does not exist yet."""
        try:
            return _decode_identity(self.store.read(IDENTITY))
        except KeyError:
            return None

    def require(self) -> ArchiveIdentity:
        """Return the identity of an archive that must exist and contain one cluster only."""
        found = self.require_key()
        self.require_one_cluster()
        return found

    def require_key(self) -> ArchiveIdentity:
        """Return the identity of an archive that must exist, after checking the key."""
        found = self._existing()
        self._check_key(found)
        return found

    def require_one_cluster(self) -> Catalogue:
        """Read the catalogue; refuse images of several clusters, because edits do not name their cluster."""
        found = self.catalogue()
        if len(clusters := clusters_of(found)) > 1:
            ids = "; ".join(each.namespace_text for each in clusters)
            raise ArchiveError(f"{self.store.location} contains images of several clusters: {ids}", hint=_SEVERAL)
        return found

    def _existing(self) -> ArchiveIdentity:
        if (found := self.identity()) is None:
            if self.store.sizes(COMMITS):
                hint = f"`checkpointer archive check --archive {self.store.location} --repair` writes {IDENTITY} again."
                raise ArchiveError(f"{self.store.location} has lost its {IDENTITY}", hint=hint)
            raise ArchiveError(
                f"{self.store.location} is not an archive: it has no {IDENTITY}",
                hint="Check --archive; `checkpointer archive add` creates an archive.",
            )
        return found

    def adopt(self, info: StorageInfo) -> None:
        """Create the archive for a namespace, or check that the identity and all images belong to this namespace."""
        found = self.identity()
        created = found is None
        if found is None:
            self._refuse(self._other_owner(info), info)
            self.write_identity(info)
            found = self._existing()
        if not same_namespace(found, info):
            replaced = self._other_owner(found) is not None and self._other_owner(info) is None
            self._refuse(found, info, _REPLACED if replaced else _OTHER_ARCHIVE)
        if (owner := self._other_owner(info)) is not None:
            # our identity has replaced the identity of another writer
            if created and not self.immutable:
                self.store.remove(IDENTITY)
            self._refuse(owner, info)
        self._check_key(found)

    def _other_owner(self, namespace: StorageInfo | ArchiveIdentity) -> StorageInfo | None:
        """Return the VERSION of an archived image of another namespace; None if there is no such image."""
        return next((each for each in clusters_of(self.catalogue()) if not same_namespace(each, namespace)), None)

    def _refuse(
        self, owner: StorageInfo | ArchiveIdentity | None, info: StorageInfo, hint: str = _OTHER_ARCHIVE
    ) -> None:
        if owner is not None:
            raise ArchiveError(
                f"{self.store.location} is the archive of cluster {owner.cluster_id}, namespace "
                f"{owner.namespace_id}, but the storage directory belongs to cluster {info.cluster_id}, namespace "
                f"{info.namespace_id}",
                hint=hint,
            )

    def write_identity(self, info: StorageInfo) -> None:
        """Store the identity, unless another writer has stored an identity."""
        key_check = "" if self._key is None else self._key.check()
        content = _encode_identity(ArchiveIdentity(info.namespace_id, info.cluster_id, key_check))
        self._put(IDENTITY, content, contested=True)

    # ---- the catalogue -----------------------------------------------------------------------------------------

    def catalogue(self) -> Catalogue:
        """Read the catalogue; commits that cannot be read are in `damaged`.

        Without new commits, the result is the same object as before; otherwise, only the new commits are read.
        """
        replaced = {each for commit in self._commits.values() for each in commit.replaces}
        for _ in range(_LISTINGS):
            read: dict[tuple[str, int], Commit] = {}
            damaged = []
            try:
                for name, size in self.store.sizes(COMMITS).items():
                    try:
                        known = self._commits.get((name, size))
                        if known is None and name in replaced:
                            # this replaced commit was damaged when it was read
                            damaged.append(name)
                            continue
                        read[name, size] = known or decode_commit(name, self.store.read(name))
                    except ArchiveDamagedError:
                        damaged.append(name)
            except KeyError:
                # another writer has replaced this commit with a commit that the listing lacks
                continue
            return self._joined(read, damaged, replaced)
        raise ArchiveError(
            f"the catalogue of {self.store.location} keeps changing",
            hint="Try again when the other writers have finished.",
        )

    def _joined(self, read: dict[tuple[str, int], Commit], damaged: list[str], replaced: set[str]) -> Catalogue:
        before, self._commits = self._commits, read
        known = self._catalogue
        added = {key[0]: commit for key, commit in read.items() if key not in before}
        grown = before.keys() <= read.keys() and not any(each.replaces for each in added.values())
        whole = replaced.issuperset(damaged) and not added.keys() & replaced
        if known is None or known.damaged or not grown or not whole:
            known = join_commits({name: commit for (name, _), commit in read.items()}, damaged)
        elif added:
            known = with_commits(known, added)
        self._catalogue = known
        return known

    def writable_catalogue(self, *, several: bool = False) -> Catalogue:
        """Read the catalogue for a change; refuse damaged commits, because their records and branches are unknown.

        Args:
            several: whether the catalogue may contain images of several clusters.
        """
        found = self.catalogue() if several else self.require_one_cluster()
        if found.damaged:
            raise ArchiveDamagedError(
                found.damaged[0],
                "the commit is damaged, so the content of the archive is unknown",
                hint="Restore the file from a copy, or run `checkpointer archive check --repair`.",
            )
        return found

    def publish(
        self,
        known: Catalogue,
        add: Sequence[Record] = (),
        remove: Sequence[str] = (),
        branches: Sequence[Branch] = (),
        replaces: Sequence[str] = (),
    ) -> Catalogue:
        """Publish a change to the catalogue `known`, and return the changed catalogue.

        A change may also replace commits.
        """
        # each commit contains all branches, and two commits contain a new branch, so a damaged commit loses no branch
        known_branches = (*known.branches.values(), *branches)
        changes: list[tuple[Sequence[Record], Sequence[str]]] = [((), ())] if branches else []
        for number, (added, removed) in enumerate([*changes, (add, remove)], known.sequence + 1):
            commit = Commit(number, _now(), tuple(added), tuple(removed), known_branches, tuple(replaces))
            self._put(*encode_commit(commit))
        found = self.catalogue()
        if len(found.commits) < _COMPACT_AFTER or found.damaged or self.immutable:
            return found
        self._compact(found)
        return self.catalogue()

    def _compact(self, known: Catalogue) -> None:
        """Replace the small commits with one commit, which follows a commit that contains only the branches."""
        every, at = tuple(known.branches.values()), _now()
        replaced = {name: commit for (name, _), commit in self._commits.items() if name in known.commits}
        left = large_commits(replaced)
        for name in left:
            del replaced[name]
        records, removed = replacing(known, replaced.values(), left.values())
        self._put(*encode_commit(Commit(known.sequence + 1, at, (), (), every)))
        # also name the objects that a killed replacement left, because this call may replace the commit that named them
        names = (*sorted(known.replaced), *replaced)
        self._put(*encode_commit(Commit(known.sequence + 2, at, records, removed, every, names)))
        for name in names:
            self.store.remove(name)

    # ---- objects -----------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, folder: str, stem: str) -> Iterator[ObjectWriter]:
        """Build an object, and store it at the end of the context under `folder/stem-DIGEST.zst` if it was finished."""
        with built(self.store) as path:
            with _full_disk_of(path), path.open("wb") as out:
                path.chmod(0o600)
                sealed = None if self._key is None else EncryptingStream(out, self._key)
                writer = ObjectWriter(FrameWriter(out if sealed is None else sealed))  # type: ignore[arg-type]
                yield writer
                if sealed is not None:
                    sealed.close()
            if not writer.finished:
                return
            digest, size = _digest_of(path), path.stat().st_size
            suffix = ".zst" if self._key is None else ".zst.enc"
            name = f"{folder}/{stem}-{digest[:16]}{suffix}"
            self.store.put(name, path)
            writer.stored = Stored(name, size, digest)

    def pin(self, names: Iterable[str]) -> bool:
        """Keep the bytes of these objects in memory, and release all other objects; return whether all of them exist.

        Otherwise, a daemon that removes parts of an open segment each second would disturb a restore, which can take
        minutes.
        """
        before, self._pinned = self._pinned, {}
        complete = True
        for name in names:
            try:
                self._pinned[name] = before[name] if name in before else self.store.read(name)
            except KeyError:
                complete = False
        return complete

    @contextmanager
    def reading(self, name: str) -> Iterator[FrameReader]:
        """Open an object.

        Raises:
            ArchiveDamagedError: the object is missing, or its footer is damaged.
        """
        try:
            stream = BytesIO(self._pinned[name]) if name in self._pinned else self.store.open(name)
        except KeyError:
            raise ArchiveDamagedError(name, "the object is missing") from None
        with stream:
            if self._key is None:
                yield FrameReader(stream, name)
                return
            # a raw stream may return less than requested
            with BufferedReader(DecryptingStream(stream, self._key, name), _STEP) as plain:
                yield FrameReader(plain, name)

    def verify_bytes(self, record: Record) -> None:
        """Read an object as stored and compare its SHA-256 with the catalogue.

        Raises:
            ArchiveDamagedError: the object is missing or damaged.
        """
        try:
            stream = self.store.open(record.name)
        except KeyError:
            raise ArchiveDamagedError(record.name, "the object is missing") from None
        digest = hashlib.sha256()
        with stream:
            while step := stream.read(_STEP):
                digest.update(step)
        if digest.hexdigest() != record.sha256:
            raise ArchiveDamagedError(record.name, "the SHA-256 of the object differs from the catalogue")

    def _put(self, name: str, content: bytes, *, contested: bool = False) -> None:
        with built(self.store) as path:
            path.write_bytes(content)
            self.store.put(name, path, contested=contested)

    def _check_key(self, found: ArchiveIdentity) -> None:
        if found.key_check and self._key is None:
            raise ArchiveError(f"{self.store.location} is encrypted", hint="Specify its key with --key-file.")
        if not found.key_check and self._key is not None:
            raise ArchiveError(
                f"{self.store.location} is not encrypted, but a key file is given",
                hint="Omit the key file, or use a new archive for encrypted objects.",
            )
        if self._key is not None and self._key.check() != found.key_check:
            raise ArchiveError(
                f"the key file does not contain the key of {self.store.location}",
                hint="Specify the key file of this archive.",
            )


class ObjectWriter:
    """Writer of the content of an object; `stored` is set when the context of `writing` has ended."""

    stored: Stored
    finished = False

    def __init__(self, frames: FrameWriter) -> None:
        self._frames = frames

    def add(self, content: bytes | memoryview) -> None:
        self._frames.add(content)

    def finish(self, description: dict[str, Any], path_filter: bytes = b"") -> None:
        self._frames.finish(description, path_filter)
        self.finished = True


@contextmanager
def open_archive(location: str, key_file: Path | None = None, *, immutable: bool = False) -> Iterator[Archive]:
    """Open the archive at a path or URL; the archive need not exist yet."""
    key = None if key_file is None else ArchiveKey.load(key_file)
    with opened_store(location) as store:
        yield Archive(store, key, immutable=immutable)


def same_namespace(one: StorageInfo | ArchiveIdentity, other: StorageInfo | ArchiveIdentity) -> bool:
    """Return whether both arguments name the same cluster and namespace."""
    return (one.namespace_id, one.cluster_id) == (other.namespace_id, other.cluster_id)


def clusters_of(catalogue: Catalogue) -> list[StorageInfo]:
    """Return the clusters of the archived images, from their VERSION files."""
    versions = dict.fromkeys(each.version for each in catalogue.images)
    found = (parse_version(each.encode(), VERSION) for each in versions)
    return list({(each.namespace_id, each.cluster_id): each for each in found}.values())


def _encode_identity(identity: ArchiveIdentity) -> bytes:
    values = {
        "format": FORMAT,
        "namespaceId": identity.namespace_id,
        "clusterId": identity.cluster_id,
        "keyCheck": identity.key_check,
    }
    text = json.dumps(values, sort_keys=True).encode()
    return b"%s\n%s\n" % (text, short_digest(text).encode())


def _decode_identity(content: bytes) -> ArchiveIdentity:
    """Decode an identity; the inverse of `_encode_identity`.

    Raises:
        ArchiveDamagedError: the second line is not the digest of the first line.
        ArchiveVersionError: a newer program wrote the identity.
    """
    text, _, digest = content.partition(b"\n")
    if digest != b"%s\n" % short_digest(text).encode():
        raise ArchiveDamagedError(
            IDENTITY,
            "the digest of the file differs from the digest in its last line",
            hint="Restore the file from a copy, or run `checkpointer archive check --repair`.",
        )
    values = json.loads(text)
    check_format(values["format"], IDENTITY)
    return ArchiveIdentity(values["namespaceId"], values["clusterId"], values["keyCheck"])


def copy_content(reader: FrameReader, out: IO[bytes]) -> str:
    """Write the content of an object to `out` and return its MD5 in hex."""
    digest = hashlib.md5(usedforsecurity=False)
    for content in reader.chunks():
        digest.update(content)
        out.write(content)
    return digest.hexdigest()


def _digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000_000
