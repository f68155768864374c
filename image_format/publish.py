"""Publishes an image and its `.md5` file under their final names, once both are complete and durable."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hadoop_common.durable import TEMPORARY_SUFFIX, refuse_special, rename_durably
from hadoop_common.file_faults import error_text, hint_for
from image_format.errors import ImageStorageError
from image_format.md5_file import md5_path, write_md5_file
from image_format.output import DigestingFileSet, WrittenFiles
from image_format.reader import ImageFile
from image_format.writer import Sink


def check_free(path: Path) -> None:
    """Refuse to overwrite an image or its `.md5` file.

    Raises:
        ImageStorageError: one of the two files exists.
    """
    for each in (path, md5_path(path)):
        if each.exists():
            raise ImageStorageError(f"{each} already exists", hint="Specify another file; --force replaces this file.")


def place_image(unfinished: Path, target: Path, md5: bytes) -> None:
    """Rename a complete and durable image after writing its digest file, so that an image never lacks its digest file.

    A NameNode ignores a digest file without an image. Every reader detects a digest file that does not match an older
    image of the same name.

    Raises:
        OSError: the image may lack its final name; the caller must handle `unfinished`.
    """
    try:
        write_md5_file(target, md5)
        rename_durably(unfinished, target)
    except OSError:
        with suppress(OSError):
            # a directory may have the image's name
            if not target.is_file():
                md5_path(target).unlink(missing_ok=True)
        raise


def publish_image(path: Path, write: Callable[[Sink], None], confirm: Callable[[], object]) -> WrittenFiles:
    """Write an image and its digest file; replace existing files.

    The image is first written under another name and read back. A kill leaves the old files, the new files, or the old
    image with the new digest file; every reader detects this mismatch.

    Args:
        write: writes the complete image to a sink; an exception aborts the publication.
        confirm: called before the image is renamed; an exception aborts the publication.

    Raises:
        ImageStorageError: the file cannot be written.
        Exception: raised by `write` or `confirm`; the new image was removed.
    """
    refuse_special(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    with DigestingFileSet([temporary]) as files:
        write(files.write)
        written = files.close()
    try:
        confirm()
        ImageFile.open(temporary, verify_md5=False, allow_unknown_layout=True).close()
        place_image(temporary, path, written.md5)
    except OSError as error:
        hint = hint_for(error, "Free space there, or check its permissions, and try again.")
        raise ImageStorageError(f"{path} could not be written: {error_text(error, path)}", hint=hint) from error
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenFiles(written.md5, written.size, (path,), ())
