"""The installed command and the Spark that it finds."""

import pytest

from replica_audit.commands.spark_here import refuse_spark
from replica_audit.errors import UsageError


@pytest.mark.parametrize("found", ["3.5.9", "4.0.5", "4.1.4", "4.20.0"])
def test_a_spark_that_the_jars_are_not_for_is_refused(found: str) -> None:
    with pytest.raises(
        UsageError, match=rf"^replica-audit audit starts Spark 4\.2, and Spark {found} is installed: pip install 'pyspark~=4\.2\.0'"
    ):
        refuse_spark("audit", found)


def test_another_patch_of_it_is_not() -> None:
    refuse_spark("audit", "4.2.1")
