"""The `.md5` digest file of an image (MD5FileUtils): one line in the format of `md5sum --binary`.

`ImageFile.verify_md5` of `image_format.reader` compares an image with its digest file.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from hadoop_common.durable import write_atomically
from hadoop_common.file_faults import error_text
from hadoop_common.names import md5_name
from hadoop_common.regular_file import open_regular, read_regular, refuse_holes
from image_format.errors import ImageStorageError, MissingDigestError, UnusableDigestError

_LINE = re.compile(rb"([0-9a-f]{32}) [ *](.+)")
_LINE_END = re.compile(rb"[\r\n]")
# A line consists of a digest and a file name; a longer file is not a digest file.
_MAX_SIZE = 64 * 1024
_HINT = "Restore the .md5 file, or write it again with md5sum --binary if the image itself is known to be intact."


def format_md5(digest: bytes, image: str) -> bytes:
    """Return the content of a digest file: `<32 hex digits> *<image name>` and a newline."""
    return f"{digest.hex()} *{image}\n".encode()


def parse_md5(content: bytes, image: str, file: str = "") -> bytes:
    """Return the digest (16 bytes) for `image` in the first line of a digest file, which may name the image with a
    path.

    Raises:
        UnusableDigestError: the line is malformed, or names another file.
    """
    line = _LINE_END.split(content, maxsplit=1)[0].strip()
    match = _LINE.fullmatch(line)
    if match is None:
        shown = line[:80].decode("utf-8", "backslashreplace")
        raise UnusableDigestError(f'"{shown}" is not a line of an MD5 file', file=file, hint=_HINT)
    name = match[2].rpartition(b"/")[2].decode("utf-8", "backslashreplace")
    if name != image:
        raise UnusableDigestError(f"it names the file {name} instead of {image}", file=file, hint=_HINT)
    return bytes.fromhex(match[1].decode("ascii"))


def md5_path(image: Path) -> Path:
    return image.with_name(md5_name(image.name))


def read_md5_file(image: Path) -> bytes:
    """Return the digest in the digest file of `image`.

    Raises:
        MissingDigestError: the digest file is missing.
        UnusableDigestError: the digest file is malformed or names another image.
        ImageStorageError: the digest file cannot be read.
    """
    path = md5_path(image)
    try:
        content = read_regular(path, _MAX_SIZE)
    except FileNotFoundError as error:
        text = f"the image has no MD5 file (expected {path.name})"
        raise MissingDigestError(text, file=str(image), hint=_HINT) from error
    except OSError as error:
        raise ImageStorageError(
            f"cannot read {path}: {error_text(error, path)}", hint="Check the disk and permissions."
        ) from error
    return parse_md5(content, image.name, str(path))


def write_md5_file(image: Path, digest: bytes) -> None:
    """Write the digest file of `image` durably; an existing file is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(md5_path(image), format_md5(digest, image.name))


def md5_of_file(path: Path) -> bytes:
    """Return the MD5 (16 bytes) of a file.

    Raises:
        ImageStorageError: the file cannot be read.
    """
    try:
        with open_regular(path) as stream:
            refuse_holes(path, stream)
            return hashlib.file_digest(stream, "md5").digest()
    except OSError as error:
        raise ImageStorageError(
            f"cannot read {path}: {error_text(error, path)}", hint="Check the disk and permissions."
        ) from error
