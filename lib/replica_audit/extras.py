"""The packages that only some commands need, by the extra of setup.cfg that installs them."""

from __future__ import annotations

from importlib.util import find_spec

from replica_audit.errors import AuditError
from replica_audit.program import COMMAND

SPARK, NOTEBOOK, CLUSTER = "spark", "notebook", "cluster"
# a module that is imported: the extra that brings it
_EXTRAS = {
    **dict.fromkeys(("pyspark", "delta", "py4j", "prometheus_client", "urllib3"), SPARK),
    **dict.fromkeys(("altair", "pandas", "ipywidgets", "vl_convert"), NOTEBOOK),
    "kafka": CLUSTER,
}
# what people install, where its name is not the module's
_PACKAGES = {"delta": "delta-spark", "prometheus_client": "prometheus-client", "vl_convert": "vl-convert-python", "kafka": "kafka-python"}


class MissingExtraError(AuditError):
    """A command needs a package that is not installed and that an extra brings."""


def missing(who: str, module: str | None) -> MissingExtraError | None:
    """What to say about a missing module, such as `kafka.errors`; None if no extra brings it.

    `who` needs it: the name of a command, or of a function.
    """
    package = (module or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    if extra is None:
        return None
    return MissingExtraError(f"{who} needs {_PACKAGES.get(package, package)}, which is not installed: pip install '{COMMAND}[{extra}]'")


def require(who: str, extra: str) -> None:
    """Check that an extra is installed, without importing it.

    Raises:
        MissingExtraError: a package of it is not.
    """
    for package, of in _EXTRAS.items():
        if of == extra and find_spec(package) is None and (error := missing(who, package)):
            raise error
