"""A YARN on this machine: Hadoop's own resource manager and node managers in one JVM, on ports of the kernel's choice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.house.checkout import ROOT
from tests.support.jvm import jvm, own_exceptions

_NODES = 2
_SETTINGS = {
    "fs.defaultFS": "file:///",
    # the other schedulers read their queues from a file
    "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler",
    "yarn.scheduler.minimum-allocation-mb": "64",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.nodemanager.vmem-check-enabled": "false",
    # a disk that others have filled is no reason to have no node
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
}


@contextmanager
def yarn(work: Path) -> Iterator[Path]:
    """Start it, with its files in a folder; yields the folder for HADOOP_CONF_DIR. It is stopped whatever happens."""
    subprocess.run([ROOT / "tests" / "cluster_mode" / "yarn_jars.sh"], check=True)
    spark = find_spec("pyspark")
    assert spark is not None and spark.submodule_search_locations
    class_path = f"{ROOT}/.cache/yarn-jars/*:{spark.submodule_search_locations[0]}/jars/*"
    options = [f"-Djava.io.tmpdir={work}", f"-Dtest.build.data={work}", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    with own_exceptions(), jvm(class_path, options, work / "stderr") as gateway:
        java = gateway.jvm
        conf = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in _SETTINGS.items():
            conf.set(name, value)
        cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", _NODES, 1, 1)
        try:
            cluster.init(conf)
            cluster.start()
            assert cluster.waitForNodeManagersToConnect(600_000)
            place = work / "conf"
            place.mkdir()
            stream = java.java.io.FileOutputStream(str(place / "yarn-site.xml"))
            cluster.getConfig().writeXml(stream)
            stream.close()
            (place / "core-site.xml").write_text("<configuration/>\n", encoding="utf-8")
            yield place
        finally:
            cluster.stop()
