"""`make release`: the same bytes in any folder, signed and listed; every artefact makes a checkpoint on its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from image_format.md5_file import read_md5_file
from install.release import SUMS, UNSIGNED, ReleaseError, pack, release, sign, write_sums
from install.sbom import bill_of_materials
from tests.install.host import REPOSITORY
from tests.install.minimal_site import Site, running, stub_of
from tests.interop.hadoop_process import wait_until

PYTHON = "/usr/bin/python3"
DEBIAN = "python3,procps,systemd-standalone-sysusers,libgssapi-krb5-2"


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (folder / ".gitignore").write_text("dist\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_tree_that_differs_from_the_commit_is_refused(checkout: Path) -> None:
    (checkout / "forgotten.py").write_text("")
    with pytest.raises(ReleaseError, match=r"(?s)commit or remove these files.*forgotten\.py"):
        release(checkout, UNSIGNED, PYTHON, "")


def test_a_release_without_a_key_is_refused_before_the_build(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match=f"KEY={UNSIGNED} to release unsigned"):
        release(checkout, "", PYTHON, "")


@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
def test_a_key_that_cannot_sign_is_refused_before_the_build(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNUPGHOME", str(tmp_path))
    with pytest.raises(ReleaseError, match=r"(?s)gpg failed: .*nobody@nowhere.*next: gpg --list-secret-keys"):
        release(checkout, "nobody@nowhere", PYTHON, "")


def test_a_host_without_gnupg_is_refused_before_the_build(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match="gpg cannot be run: No such file or directory; next: install gpg"):
        release(checkout, "anyone", PYTHON, "")


def test_an_existing_release_is_refused_before_the_build(checkout: Path) -> None:
    (checkout / "dist/release-1.2.3").mkdir(parents=True)
    with pytest.raises(ReleaseError, match=r"dist/release-1\.2\.3 exists; next: move it elsewhere"):
        release(checkout, UNSIGNED, PYTHON, "")


def test_a_git_failure_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"(?s)git failed: .*\nnext: git -C"):
        release(tmp_path / "missing", UNSIGNED, PYTHON, "")


def test_a_missing_python_is_refused_before_the_build(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match="no/python cannot be run; next: make release TARGET_PYTHON="):
        release(checkout, UNSIGNED, "no/python", "")


def test_a_failed_build_leaves_no_release(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".git/info/exclude").write_text(".venv\n")
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    # a relative path, as a user may type it
    python = os.path.relpath(sys.executable)
    with pytest.raises(ReleaseError, match=r"hatch_build\.py failed; next: correct the faults in the messages above"):
        release(checkout, UNSIGNED, python, "")
    assert "hatch_build.py" in capfd.readouterr().err
    assert not (checkout / "dist").exists()


@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
def test_the_checksums_are_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "keys"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    words = ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", "release@example.org", "ed25519", "sign"]
    subprocess.run(words, check=True, capture_output=True)
    out = tmp_path / "out"
    out.mkdir()
    (out / "package").write_text("bytes")
    write_sums(out)
    sign(out / SUMS, "release@example.org")
    check = f"gpg --verify {SUMS}.asc {SUMS} && sha256sum --strict --check {SUMS}"
    subprocess.run(["sh", "-c", check], cwd=out, check=True, capture_output=True)
    subprocess.run(["gpgconf", "--kill", "all"], check=True)


def test_an_archive_depends_only_on_names_and_contents(tmp_path: Path) -> None:
    for number, mode in ((1, 0o600), (2, 0o777)):
        folder = tmp_path / str(number) / "wheelhouse"
        folder.mkdir(parents=True)
        for name in "ab" if number == 1 else "ba":
            (folder / name).write_text(name)
            (folder / name).chmod(mode)
            os.utime(folder / name, (number, number))
        pack(folder, tmp_path / f"{number}.tar", epoch=1_700_000_000)
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    with tarfile.open(tmp_path / "1.tar") as tar:
        assert [(each.name, each.mode, each.uid) for each in tar] == [
            ("wheelhouse/a", 0o644, 0),
            ("wheelhouse/b", 0o644, 0),
        ]


def test_the_bill_of_materials_lists_bundled_packages(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx")
    for name, licence in (("ours", "License-Expression: Apache-2.0"), ("Their_lib", "License: MIT"), ("odd", "A: B")):
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n{licence}\n\ntext")
    found = json.loads(bill_of_materials(tmp_path, "ours", 1_700_000_000))
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/ours@1.0"
    assert {each["purl"]: each["licenses"] for each in found["components"]} == {
        "pkg:pypi/their-lib@1.0": [{"license": {"name": "MIT"}}],
        "pkg:pypi/odd@1.0": [],
    }


def make_release(folder: Path) -> Path:
    """Release the commit in a clone at `folder`, with the libraries of this environment."""
    subprocess.run(["git", "clone", "-q", REPOSITORY, folder], check=True)
    (folder / ".venv").symlink_to(sys.prefix)
    command = [sys.executable, "-m", "install.release", UNSIGNED, PYTHON, "kerberos tls"]
    subprocess.run(command, cwd=folder, check=True)
    (out,) = folder.glob("dist/release-*")
    return out


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("cyclonedx")
    for needed in (PYTHON, "dpkg-deb", "krb5-config", "gcc"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    return make_release(tmp_path_factory.mktemp("release") / "first")


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_two_builds_in_different_folders_are_equal(released: Path, tmp_path: Path) -> None:
    again = make_release(tmp_path / "a-folder-with-a-longer-name")
    names = sorted(path.name for path in released.iterdir())
    assert len(names) == 7
    assert sorted(path.name for path in again.iterdir()) == names
    assert [name for name in names if (again / name).read_bytes() != (released / name).read_bytes()] == []


def check_program(folder: Path, program: Sequence[str]) -> None:
    """Assert that an installed program makes a checkpoint for a stub."""
    folder.mkdir(parents=True, exist_ok=True)
    site = Site(folder)
    conf = site.conf("secondary", "secondary")
    namenode = site.conf("secondary", "namenode", **{"dfs.namenode.name.dir": (folder / "nn").as_uri()})
    with ExitStack() as resources:
        node = stub_of(namenode, resources)
        resources.enter_context(running(site, conf, "run", "--role", "secondary", program=program))
        wait_until(lambda: run(program, "status", conf) == 0, "the daemon")
        node.active.roll()
        assert run(program, "checkpoint", conf, "--force") == 0
    newest = max(path for path in (folder / "nn/current").glob("fsimage_*") if path.suffix != ".md5")
    assert int(newest.name.rpartition("_")[2]) > 0
    assert read_md5_file(newest) == read_md5_file(
        folder / "secondary-data/hdfs-checkpointer/secondary/current" / newest.name
    )


def run(program: Sequence[str], command: str, conf: Path, *words: str) -> int:
    return subprocess.run([*program, command, "--conf", str(conf), *words], check=False).returncode


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("artefact", ["*-wheelhouse-*.tar", "*.whl", "*.tar.gz"])
def test_each_artefact_makes_a_checkpoint_in_an_empty_environment(
    released: Path, tmp_path: Path, artefact: str
) -> None:
    """An installation from the wheel or the source archive fetches libraries and build tools; the wheelhouse contains
    everything.
    """
    (archive,) = released.glob(artefact)
    words = [archive]
    if archive.suffix == ".tar":
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
        (wheel,) = released.glob("*.whl")
        assert (tmp_path / "wheelhouse" / wheel.name).read_bytes() == wheel.read_bytes()
        words = ["--no-index", "--find-links", tmp_path / "wheelhouse", "hdfs-checkpointer[kerberos,tls]"]
    subprocess.run([PYTHON, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [tmp_path / "venv/bin/pip", "install", "--constraint", released / "constraints.txt"]
    subprocess.run([*pip, *words], check=True)
    check_program(tmp_path / "site", [str(tmp_path / "venv/bin/checkpointer")])


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.skipif(shutil.which("debootstrap") is None or os.geteuid() != 0, reason="needs debootstrap, and root")
def test_the_debian_package_makes_a_checkpoint_on_a_minimal_system(released: Path, tmp_path: Path) -> None:
    suite = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().split("\n") if "=" in line)
    root = tmp_path / "root"
    command = ["debootstrap", "--variant=minbase", f"--include={DEBIAN}", suite["VERSION_CODENAME"], root]
    subprocess.run(command, check=True)
    check_debian(released, root, tmp_path / "site")


def check_debian(released: Path, root: Path, site: Path) -> None:
    """Install the Debian package in a new root without a network; check the program with `site` inside and outside."""
    (package,) = released.glob("*.deb")
    shutil.copy(package, root / "tmp")
    subprocess.run(["chroot", root, "dpkg", "--install", f"/tmp/{package.name}"], check=True)
    inside = root / site.relative_to("/")
    inside.mkdir(parents=True)
    site.symlink_to(inside)
    check_program(site, ["chroot", str(root), "checkpointer"])
