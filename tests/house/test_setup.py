"""What the set-up takes from elsewhere is what this version was tested with, to the byte, or nothing is taken."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import pytest

from tests.house.checkout import ROOT, Checkout, Ran

pytestmark = pytest.mark.slow
DELTA = "delta-storage-4.4.0.jar"
HOME = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A copy that borrows the packages of the environment that runs the tests, and has no jars."""
    made = Checkout.make(tmp_path)
    made.prepared()
    shutil.rmtree(made.root / ".cache/jars")
    pyspark = made.root / ".venv/lib/python3.11/site-packages/pyspark"
    pyspark.rmdir()
    pyspark.symlink_to(next((ROOT / ".venv/lib").glob("python3*")) / "site-packages" / "pyspark")
    for name, found in (("python3.11", sys.executable), ("java", shutil.which("java")), ("touch", shutil.which("touch"))):
        assert found, name
        (made.path / name).symlink_to(found)
    return made


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A repository of the jars, laid out as Maven's."""
    made = tmp_path / "mirror"
    for jar in ElementTree.parse(ROOT / "conf/ivy.xml").iter("dependency"):  # noqa: S314 - the project's own
        folder = made.joinpath(*jar.attrib["org"].split("."), jar.attrib["name"], jar.attrib["rev"])
        folder.mkdir(parents=True)
        name = f"{jar.attrib['name']}-{jar.attrib['rev']}.jar"
        shutil.copy(ROOT / ".cache/jars" / name, folder / name)
    return made


def set_up(checkout: Checkout, mirror: Path) -> Ran:
    return checkout.run(REPLICA_AUDIT_MAVEN_MIRROR=mirror.as_uri(), **HOME)


def change_a_byte(jar: Path) -> None:
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.write_bytes(content)


def cut_short(jar: Path) -> None:
    jar.write_bytes(jar.read_bytes()[:-1000])


@pytest.mark.parametrize("spoil", [change_a_byte, cut_short])
def test_a_jar_of_a_mirror_that_is_not_the_one_is_refused(checkout: Checkout, mirror: Path, spoil: object) -> None:
    (jar,) = mirror.rglob(DELTA)
    assert callable(spoil)
    spoil(jar)
    ran = set_up(checkout, mirror)
    assert (ran.code, ran.out) == (2, "")
    assert "error: setting up: the Delta Lake jars are not those that this version was tested with, and are not used:\n" in ran.err
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    assert f"\n  {DELTA}: SHA-256 {found} ({jar.stat().st_size} bytes), expected " in ran.err
    assert ran.err.count(".jar: ") == 1
    assert mirror.as_uri() in ran.err
    assert not list((checkout.root / ".cache").rglob("*.jar"))


class TestAfterASetUp:
    """What later starts notice, without reading the jars."""

    @pytest.fixture
    def jars(self, checkout: Checkout, mirror: Path) -> Path:
        ran = set_up(checkout, mirror)
        assert (ran.code, ran.err) == (0, "setting up: fetching the Delta Lake jars (a few seconds, 13 MB) ...\n")
        return checkout.root / ".cache/jars"

    def test_jars_as_they_were_made_are_not_looked_into(self, checkout: Checkout, jars: Path) -> None:
        (checkout.path / "python3.11").unlink()  # what would read them
        ran = checkout.run(**HOME)
        assert (ran.code, ran.err) == (0, "")
        assert len(list(jars.glob("*.jar"))) == 8

    def test_jars_that_were_copied_are_compared_and_taken(self, checkout: Checkout, jars: Path) -> None:
        for jar in jars.glob("*.jar"):
            os.utime(jar)
        assert checkout.run(**HOME).err == ""
        (checkout.path / "python3.11").unlink()
        assert checkout.run(**HOME).err == "", "compared once, not at each start"

    @pytest.mark.parametrize("spoil", [change_a_byte, cut_short, Path.unlink])
    def test_a_jar_that_changed_is_named_and_fetched_again(
        self, checkout: Checkout, jars: Path, mirror: Path, spoil: object, request: pytest.FixtureRequest
    ) -> None:
        assert callable(spoil)
        spoil(jars / DELTA)
        ran = set_up(checkout, mirror)
        assert ran.code == 0
        assert f"setting up: {jars} is not as it was made:\n  {DELTA}: " in ran.err
        assert (jars / DELTA).read_bytes() == (ROOT / ".cache/jars" / DELTA).read_bytes()
        assert set_up(checkout, mirror).err == ""

    def test_a_jar_that_belongs_to_nothing_is_no_part_of_the_class_path(self, checkout: Checkout, jars: Path, mirror: Path) -> None:
        shutil.copy(jars / DELTA, jars / "other.jar")
        ran = set_up(checkout, mirror)
        assert (ran.code, (jars / "other.jar").exists()) == (0, False)
        assert "  other.jar: belongs to nothing\n" in ran.err

    def test_another_list_compares_them_again(self, checkout: Checkout, jars: Path, mirror: Path) -> None:
        listed = checkout.root / "conf/ivy.sha256"
        listed.write_text(listed.read_text().replace("a", "b"))
        assert set_up(checkout, mirror).code == 2


class TestPackages:
    """pip, with an index of files."""

    @pytest.fixture
    def index(self, checkout: Checkout, tmp_path: Path) -> Path:
        shutil.rmtree(checkout.root / ".venv")
        folder = tmp_path / "index" / "setuptools"
        folder.mkdir(parents=True)
        wheel = "setuptools-84.2.1-py3-none-any.whl"
        with zipfile.ZipFile(folder / wheel, "w") as made:
            about = "setuptools-84.2.1.dist-info"
            made.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: setuptools\nVersion: 84.2.1\n")
            made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            made.writestr(f"{about}/RECORD", "")
        (folder / "index.html").write_text(f"<a href='{wheel}'>{wheel}</a>")
        return folder / wheel

    def run(self, checkout: Checkout, index: Path) -> Ran:
        return checkout.run("collect", PIP_INDEX_URL=index.parents[1].as_uri(), PIP_NO_CACHE_DIR="1")

    def test_another_file_of_the_same_name_is_refused(self, checkout: Checkout, index: Path) -> None:
        ran = self.run(checkout, index)
        assert (ran.code, ran.out) == (2, "")
        assert "error: setting up: a package is not the one that this version was tested with, and was not installed" in ran.err
        assert f"setuptools==84.2.1 from {index.as_uri()}" in ran.err
        assert f"Got        {hashlib.sha256(index.read_bytes()).hexdigest()}" in ran.err
        assert not (checkout.root / ".venv").exists()

    def test_the_file_that_is_listed_is_taken(self, checkout: Checkout, index: Path) -> None:
        listed = checkout.root / "conf/requirements/build.txt"
        digest = hashlib.sha256(index.read_bytes()).hexdigest()
        listed.write_text(f"setuptools==84.2.1 --hash=sha256:{digest}\n")
        ran = self.run(checkout, index)
        assert "error: setting up: pip could not install the packages" in ran.err, "the next ones: the index has no other"
        assert "No matching distribution found for annotated-types==" in ran.err
