"""What a wheel holds besides the package: the settings, the list of jars and the sample, which a checkout has in folders of its own.

Everything else is in setup.cfg.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
# as replica_audit.program.shipped finds them
SHIPPED = (
    *(f"conf/{name}" for name in ("audit.yaml", "acknowledged.yaml", "spark-defaults.conf", "log4j2.properties")),
    *("conf/ivy.xml", "conf/ivy.sha256", "conf/ivysettings.xml", "tools/jar_checks.py"),
    "tests/data/sample",
)


class BuildWithShipped(build_py):
    """Copies them to replica_audit/shipped; an editable installation finds them where they are."""

    def run(self) -> None:
        """Build."""
        super().run()
        if self.editable_mode:
            return
        for path in SHIPPED:
            target = Path(self.build_lib, "replica_audit", "shipped", path)
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, target, dirs_exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, target)


setup(cmdclass={"build_py": BuildWithShipped})
