"""Kinds of damage to an image, each a function that changes a `Model` in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from image_format.proto import fsimage_pb2 as pb
from tests.image_tools.verify_support import Model

Mutation = Callable[[Model], object]
FILE, DIRECTORY, SYMLINK = pb.INode.FILE, pb.INode.DIRECTORY, pb.INode.SYMLINK
ROOT = 16385
LOST = 1 << 40
FAR = 5_000_000


@dataclass(frozen=True)
class Damage:
    """A kind of damage and its findings.

    Attributes:
        restored: whether the repair restores the original meaning of the image.
        also: other findings that the damage causes.
    """

    code: str
    case: str
    mutate: Mutation
    restored: bool = False
    also: frozenset[str] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        return f"{self.code}-{self.case}-{self.mutate.__name__.strip('_')}"


DAMAGES: list[Damage] = []


def damage(code: str, *cases: str, restored: bool = False, also: str = "") -> Callable[[Mutation], Mutation]:
    def register(mutate: Mutation) -> Mutation:
        for case in cases:
            DAMAGES.append(Damage(code, case, mutate, restored, frozenset(also.split())))
        return mutate

    return register
