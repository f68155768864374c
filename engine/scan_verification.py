"""Verification of a large image during its scan: the records of INODE, and the digest of the beginning of the file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.inode_scan import SMALLEST_RECORD, read_inode_header
from image_format.reader import BegunDigest, ImageFile
from image_tools.loadable.inodes import InodePieces

_DIGESTED = 0.5
"""Share of the file whose digest is computed during the scan. The disk delivers the file faster than one core computes
its digest, so the scan would wait for the rest; while the new image is written, a core has time for it.
"""


class ScanVerification:
    """`Inspector` of a scan that checks the records, and begins the digest of the file.

    Attributes:
        digest: digest of the beginning of the file.
        inodes: results for the records.
    """

    def __init__(self, image: ImageFile) -> None:
        header, start = read_inode_header(image)
        section = image.place("INODE").base or 0
        self.digest = BegunDigest()
        self.digest.update(np.frombuffer(image.file_bytes()[: section + start], np.uint8))
        self.inodes = InodePieces(image, min(int(header.numInodes), image.size // SMALLEST_RECORD))
        self.inspect = self.inodes.inspect
        self.add = self.inodes.add
        self._digested = int(image.size * _DIGESTED)

    def read(self, piece: npt.NDArray[np.uint8]) -> None:
        if self.digest.size < self._digested:
            self.digest.update(piece)
