"""A name in snapshots that ends before the name of its directory: NameNodes cannot load an image with such a name, and
merges remove the name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InconsistentNamespaceError
from engine.healing import HealingMode
from engine.image_steps import write_verified
from engine.merge import load_image
from engine.settings import ReplayRules
from image_format.reader import ImageFile
from image_tools.verify.checker import verify_image
from tests.image_tools.snapshot_damage import name_that_ends_before_its_directory
from tests.image_tools.verify_support import Model, recorded


def saved(damaged: Path, folder: Path, healing: HealingMode) -> tuple[Path, list[str]]:
    """Save a damaged image; return the new image's path and the codes of the healed inconsistencies."""
    out = bytearray()
    with ImageFile.open(damaged) as image:
        loaded = load_image(image, ReplayRules(healing=healing))
        write_verified(loaded.namespace, loaded.write, out.extend, damaged)
    made = folder / damaged.name
    made.write_bytes(out)
    return made, [healed.code for healed in loaded.namespace.healing_log]


@pytest.mark.parametrize("case", ["rename", "rename3"])
def test_name_that_ends_too_early_is_healed_before_the_save(case: str, tmp_path: Path) -> None:
    model = Model(recorded(case))
    name_that_ends_before_its_directory(model)
    damaged = model.save(tmp_path / "damaged")
    made, healed = saved(damaged, tmp_path, HealingMode.HEAL)
    assert healed == ["reference-snapshot"]
    assert verify_image(made).findings.counts["reference-snapshot"] == 0
    with pytest.raises(InconsistentNamespaceError, match="reference-snapshot"):
        saved(damaged, tmp_path, HealingMode.STRICT)
    left, reported = saved(damaged, tmp_path, HealingMode.AS_HADOOP)
    assert reported == []
    assert verify_image(left).findings.counts["reference-snapshot"] == 1
