"""Verification of a large image during its scan, so that INODE is read from the disk only once."""

from __future__ import annotations

import numpy as np

from image_format.inode_scan import SMALLEST_RECORD, read_inode_header
from image_format.reader import BegunDigest, ImageFile
from image_tools.loadable.inodes import InodePieces


class ScanVerification:
    """`Inspector` of a scan that computes the digest up to the end of INODE, and checks the records.

    Attributes:
        digest: digest of the file up to the scanned position.
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
        self.read = self.digest.update
