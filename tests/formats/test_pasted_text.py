"""Text of kafka-dump-log as people keep it: with their prompts, fences and warnings around it, cut short, or of the wrong file.

Each is read right, or is a problem; nothing is taken for whole that is not, and nothing is dropped in silence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import read_segment, scan_of
from replica_audit.formats.segment.segment_scan import scanned
from replica_audit.model import BatchHeader, Problem, ReplicaFiles
from tests.formats.test_dump_log import RECORD, START, line

BODY = START.partition(b"\n")[2] + line(0, 2, 0) + line(3, 3, 100)
WHOLE = START + line(0, 2, 0) + line(3, 3, 100)
SPANS = [(0, 2), (3, 3)]


class Read:
    """What is made of one text in a broker's folder."""

    def __init__(self, broker: Path, text: bytes, name: str = "dump.txt") -> None:
        path = broker / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        found = list(replicas_of(broker))
        self.replicas = {one.directory: one for one in found if isinstance(one, ReplicaFiles)}
        files = [file for one in self.replicas.values() for file in one.segments]
        problems = [one for one in found if isinstance(one, Problem)]
        problems += [problem for one in self.replicas.values() for problem in one.problems]
        problems += [problem for file in files for problem in scanned(file, scan_of).problems]
        assert all(problem.detail and problem.remedy for problem in problems)
        self.told = [(problem.code, problem.line) for problem in problems]
        self.spans = [
            (item.base_offset, item.last_offset) for file in files for item in read_segment(file) if isinstance(item, BatchHeader)
        ]


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    return tmp_path / "broker-1"


COMMAND = b"kafka-dump-log.sh --files /data/orders-0/00000000000000000000.log\n"


@pytest.mark.parametrize(
    "before",
    [
        b"$ " + COMMAND,
        b"# bin/" + COMMAND,
        b"% " + COMMAND,
        b"[root@node1 kafka_2.13-3.6.1]# bin/" + COMMAND,
        b"[kafka@hadoop104 orders-0]$ kafka-run-class.sh kafka.tools.DumpLogSegments --files ./00000000000000000000.log\n",
        b"root@kafka-0:/opt/kafka# bin/" + COMMAND,
        b"bash-5.1$ cd /data/orders-0\nbash-5.1$ " + COMMAND,
        b"E:\\confluent-7.2.2>bin\\windows\\kafka-dump-log.bat --files E:\\tmp\\orders-0\\00000000000000000000.log\n",
        b"PS C:\\kafka> .\\bin\\windows\\kafka-dump-log.bat --files x.log\n",
        b"$ kafka-run-class.sh kafka.tools.DumpLogSegments \\\n  --files /data/orders-0/00000000000000000000.log \\\n  --verify\n",
        b"```\n",
        b"```sh\n$ " + COMMAND + b"\n",
        b"~~~ text\n\n\n",
        b'Defaulted container "kafka" out of: kafka, metrics\nUnable to use a TTY - input is not a terminal or the right kind of file\n',
        b"DEPRECATED: using log4j 1.x configuration. To use log4j 2.x configuration, run with: 'export KAFKA_LOG4J_OPTS=...'\n",
        b"2026 main ERROR\n".replace(b"2026 ", b"") + b"WARNING: sun.reflect.Reflection.getCallerClass is not supported\n",
        b"SLF4J: Class path contains multiple SLF4J bindings.\n" + b"SLF4J: Found binding in [jar:file:/opt/kafka/libs/x.jar]\n" * 200,
    ],
)
def test_what_stands_before_the_output_is_passed_over(broker: Path, before: bytes) -> None:
    read = Read(broker, before + WHOLE)
    assert (list(read.replicas), read.spans, read.told) == (["orders-0"], SPANS, [])


@pytest.mark.parametrize(
    "behind",
    [
        *(b"```\n", b"[root@node1 kafka]# \n", b"$ exit\n", b"\n\n", b"\r\n", b"# leader\n", b"-----\n", b"command terminated\n"),
        *(b"lines 1-4/4 (END)\n", b"(END)\n", b"Connection to b1 closed.\n", b"done\n", b"# 2 batches\n"),
    ],
)
def test_what_stands_behind_it_as_well(broker: Path, behind: bytes) -> None:
    read = Read(broker, WHOLE + behind)
    assert (read.spans, read.told) == (SPANS, [])


def test_blank_lines_between_the_lines(broker: Path) -> None:
    read = Read(broker, WHOLE.replace(b"\n", b"\n\n"))
    assert (list(read.replicas), read.spans, read.told) == (["orders-0"], SPANS, [])


def test_two_commands_in_one_text(broker: Path) -> None:
    read = Read(broker, b"$ " + COMMAND + WHOLE + b"$ " + COMMAND + WHOLE.replace(b"orders-0", b"orders-1"))
    assert (list(read.replicas), read.spans, read.told) == (["orders-0", "orders-1"], SPANS * 2, [])


OF_TOOL = b"kafka-dump-log.sh --files /data/orders-0/00000000000000000000.log"
PARTS = [
    *(
        b"$ %s | head -4",
        b"$ %s|head -n 4",
        b"$ %s | head -n4",
        b"$ %s | head --lines=4",
        b"$ %s 2>/dev/null | head -3",
        b"$ %s | head -c 4000",
    ),
    *(b"$ %s | tail -4", b"$ %s | tail -n +3", b"$ %s | tail -n 2 | tee x", b"$ %s | tee x | head -2", b"$ %s | head -n -2"),
    *(
        b"$ %s | grep baseOffset",
        b"$ %s | grep -E 'a|b'",
        b"$ %s | egrep -v x",
        b"$ %s |& rg x",
        b"$ %s | awk 'NR<9'",
        b"$ %s | sed -n 1,20p",
        b"$ %s | sed 9q",
    ),
    *(b"$ %s | less", b"$ %s | more", b"$ %s | cut -c1-400", b"$ %s | uniq", b"$ %s | my-filter", b"$ %s | dd count=1"),
    *(
        b"$ %s --max-bytes 800",
        b"$ %s --max-bytes=800",
        b"$ %s --max-bytes 800 > d.txt; cat d.txt",
        b"$ %s --max-bytes 200 > d.txt\n$ cat d.txt",
    ),
    *(
        b"[kafka@b1 ~]$ %s | head -4",
        b"user@host:~$ %s | head -4",
        b"root@kafka-0:/# %s | head -4",
        b"# %s | head -4",
        b"bash-5.1$ %s | head -4",
    ),
    *(
        b"I have no name!@kafka-0:/$ %s | head -4",
        b"PS C:\\kafka> .\\bin\\windows\\%s | Select-Object -First 4",
        b"C:\\kafka>%s | findstr base",
    ),
    *(
        b"$ kubectl exec -n kafka kafka-0 -c kafka -- bin/%s | head -4",
        b"$ docker exec -it kafka bash -c '%s | head -4'",
        b'$ ssh b1 "%s | head -4"',
    ),
    *(
        b"+ %s\n+ head -4",
        b"+ head -4\n+ %s",
        b"++ %s\n++ grep base",
        b"$ %s \\\n  --max-bytes 800",
        b"$ %s \\\n  | head -4",
        b"$ %s |\n  head -4",
    ),
    *(
        b"$ %s \\\n> | head -4",
        b"PS C:\\kafka> %s `\n  | select -first 4",
        b"$ %s > d.txt\n$ head -4 d.txt",
        b"$ less d.txt",
        b"$ zcat d.gz | head -4",
    ),
    *(b"$ sudo -u kafka %s | sudo head -4", b"$ cd /data && %s | head -4", b"$ for f in *.log; do %s | head -4; done", b"%s | head -4"),
    *(
        b"$ ls *.log | head -1 | xargs -n1 %s",
        b"$ %s,/data/orders-0/00000000000000000900.log",
        b"\xe2\x9e\x9c  ~ %s | head -4",
        b"$ %s | /usr/bin/head -4",
    ),
    *(b"PS C:\\kafka> Get-Content d.txt -TotalCount 4", b"$ sudo tail -n 4 d.txt", b"$ %s | perl -ne 'print'"),
]


@pytest.mark.parametrize("command", PARTS)
def test_a_command_that_leaves_lines_out_says_that_the_text_is_a_part(broker: Path, command: bytes) -> None:
    read = Read(broker, command.replace(b"%s", OF_TOOL) + b"\n" + WHOLE)
    assert (read.spans, [code for code, _line in read.told]) == (SPANS, ["dump-truncated"])


@pytest.mark.parametrize(
    "command",
    [
        *(
            b"$ %s",
            b"$ %s > d.txt\n$ cat d.txt",
            b"$ %s | tee d.txt",
            b"$ %s 2>&1 | gzip > d.gz",
            b"$ %s --skip-record-metadata",
            b"$ %s --verify-index-only",
        ),
        *(
            b"$ %s --max-bytes 2147483647",
            b"$ %s | head -100",
            b"$ %s | head",
            b"$ %s | tail -n 50",
            b"$ %s | tail -n +1",
            b"$ %s | head -5",
        ),
        *(
            b"$ %s | sed 's/orders/foo/'",
            b"$ %s | sed -E -e 's,a,b,g'",
            b"$ %s || true",
            b"$ ls -la | grep orders; %s",
            b"$ ls /data | head -3\n$ %s",
        ),
        *(
            b"$ /opt/head/%s --print-data-log",
            b"$ kafka-dump-log.sh --files $(ls *.log | tr '\\n' ',')",
            b"$ find . -name '*.log' | xargs %s",
        ),
        *(
            b"$ cat d.txt",
            b"PS C:\\kafka> Get-Content d.txt",
            b"$ kubectl exec kafka-0 -- %s | tee d.txt",
            b"+ cd /data\n+ %s",
            b"$ head -100 d.txt",
        ),
        *(b"# head of broker 1", b"$ %s | tr -d '\\r'", b"$ %s \\\n  --verify-only", b"$ %s | Out-File d.txt -Encoding utf8"),
    ],
)
def test_one_that_leaves_nothing_out_does_not(broker: Path, command: bytes) -> None:
    read = Read(broker, command.replace(b"%s", OF_TOOL) + b"\n" + WHOLE)
    assert (list(read.replicas), read.spans, read.told) == (["orders-0"], SPANS, [])


def test_a_command_is_of_the_output_below_it(broker: Path) -> None:
    second = WHOLE.replace(b"orders-0", b"orders-1")
    read = Read(broker, b"$ " + COMMAND + WHOLE + b"$ " + OF_TOOL + b" | head -4\n" + second)
    assert (read.told, [bool(read.replicas[name].problems) for name in ("orders-0", "orders-1")]) == (
        [("dump-truncated", 6)],
        [False, True],
    )
    read = Read(broker, b"$ " + OF_TOOL + b" | head -4\n" + WHOLE + b"$ " + COMMAND + second)
    assert [bool(read.replicas[name].problems) for name in ("orders-0", "orders-1")] == [True, False]


def test_of_all_files_that_it_names(broker: Path) -> None:
    """What `head` leaves of several files is the last one's part, and others may be missing."""
    second = WHOLE.replace(b"orders-0", b"orders-1")
    read = Read(broker, b"$ kafka-dump-log.sh --files a.log,b.log | head -8\n" + WHOLE + second)
    assert all(read.replicas[name].problems for name in ("orders-0", "orders-1"))
    read = Read(broker, b"$ kafka-dump-log.sh --files a.log,b.log | head -9\n" + WHOLE + second)
    assert not any(read.replicas[name].problems for name in ("orders-0", "orders-1"))


def test_bytes_that_were_not_read_are_no_torn_batch(broker: Path) -> None:
    """Whether it prints them or not: since 3.3 it does not (DumpLogSegments)."""
    found = b"Found 40 invalid bytes at the end of 00000000000000000000.log\n"
    assert Read(broker, b"$ " + OF_TOOL + b" --max-bytes 240\n" + WHOLE + found).told == [("dump-truncated", 1)]
    assert Read(broker, b"$ " + OF_TOOL + b"\n" + WHOLE + found).told == [("torn-batch", 6)]


def test_a_command_in_the_contents_of_records_is_none(broker: Path) -> None:
    text = START + line(0, 0, 0) + RECORD + b"$ " + OF_TOOL + b" | head -4\n" + line(1, 1, 100) + RECORD
    assert Read(broker, text).told == []


MARKS = [
    *(b"......", b"...", b"..", b". . .", "\u2026".encode(), b"[...]", b"(...)", b"<...>", b"  ...", b"... and so on"),
    *(
        b"(snip)",
        b"<snip>",
        b"-- snip --",
        b"---8<--- snipped",
        b"[120 lines omitted]",
        b"... 120 lines omitted ...",
        b"(output truncated)",
    ),
    *(
        b"--More--",
        b"-- more --",
        b"--More--(12%)",
        b"\x1b[7m--More--\x1b[m",
        b"lines 1-50/200",
        b"lines 1-50/200 25%",
        b"lines 1-23",
        b"[+120 lines]",
    ),
    *(b"120 more lines", b"Show more", b"[Message clipped]  View entire message", b"Click to expand inline (120 lines)", b"view raw"),
    *(b"[output too large]", b"(shortened)", b"# first 20 lines", b"(only the last 100 batches)", b"etc.", b"to be continued", b"cont'd"),
    *(
        b"^C",
        b"Killed",
        b"bash: line 1:  4711 Killed",
        b"command terminated with exit code 137",
        b"client_loop: send disconnect: Broken pipe",
    ),
    *(b"error: unexpected EOF", b"Connection to b1 closed by remote host."),
    *(b".\n.\n.", b":", "\uff08\u7701\u7565\uff09".encode(), "(\u4e2d\u7565)".encode(), "\uc0dd\ub7b5".encode()),
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_text_that_leaves_something_out_at_its_end_is_not_whole(broker: Path, mark: bytes) -> None:
    read = Read(broker, WHOLE + mark + b"\n")
    assert (read.spans, read.told) == (SPANS, [("dump-truncated", 5 + mark.count(b"\n"))])


@pytest.mark.parametrize("mark", MARKS)
def test_in_its_middle_neither(broker: Path, mark: bytes) -> None:
    read = Read(broker, WHOLE + mark + b"\n" + line(90, 92, 9000))
    assert (read.spans, read.told) == (SPANS, [("dump-truncated", 5 + mark.count(b"\n"))])


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_where_nothing_is_missing_is_no_problem(broker: Path, mark: bytes) -> None:
    read = Read(broker, WHOLE + mark + b"\n" + line(4, 4, 200))
    assert (read.spans, read.told) == ([*SPANS, (4, 4)], [])


@pytest.mark.parametrize("mark", [b"......", b"(snip)"])
def test_behind_records_a_mark_is_content_only_if_the_log_goes_on(broker: Path, mark: bytes) -> None:
    text = START + line(0, 0, 0) + RECORD + mark + b"\n"
    assert Read(broker, text + line(1, 1, 100) + RECORD).told == []
    assert Read(broker, text).told == [("dump-truncated", 5)]
    assert Read(broker, text + line(7, 7, 900) + RECORD).told == [("dump-truncated", 5)]


@pytest.mark.parametrize(
    "ending",
    [
        b'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat kafka.tools.X\n\t... 12 more\n',
        b"[2026-11-21] WARN java.io.IOException: x\n\tat kafka.tools.X\n\t... 12 more\n",
        b"[2026-11-21] WARN java.io.IOException: x\n\tat kafka.tools.X\n\t... 3 common frames omitted\n",
    ],
)
def test_the_dots_of_a_stack_trace_leave_nothing_out(broker: Path, ending: bytes) -> None:
    assert Read(broker, WHOLE + ending).told in ([], [("dump-truncated", 5)])
    assert (Read(broker, WHOLE + ending).told == []) == (b"WARN" in ending)


def test_nothing_but_a_mark_behind_the_dumping_line(broker: Path) -> None:
    read = Read(broker, START.partition(b"\n")[0] + b"\n......\n")
    assert (list(read.replicas), [code for code, _line in read.told]) == (["orders-0"], ["dump-truncated"])


@pytest.mark.parametrize("count", [2, 3, 2**31 - 1])
def test_more_records_than_offsets_cannot_be(broker: Path, count: int) -> None:
    read = Read(broker, WHOLE + line(4, 4, 200, count=count) + line(5, 5, 300))
    assert (read.spans, read.told) == (SPANS, [("dump-malformed", 5)])


def test_nor_in_a_text_that_native_code_reads(broker: Path) -> None:
    good = b"".join(line(i, i, 100 * i) for i in range(20_000))
    bad = line(20_000, 20_000, 2_000_000, count=2) + line(20_001, 20_001, 2_000_100)
    read = Read(broker, START + good + bad)
    assert (len(read.spans), read.told) == (20_000, [("dump-malformed", 20_003)])
    assert Read(broker, START + good + line(20_000, 20_003, 2_000_000, count=2)).told == [], (
        "fewer records than offsets: a cleaner was there"
    )


@pytest.mark.parametrize(
    "text",
    [
        b"Dumping /data/orders-0/00000000000000000000.index\noffset: 12 position: 4096\n",
        b"$ " + COMMAND + b"Dumping ./00000000000000000000.index\n\noffset: 3 position: 152\n",
        b"Dumping /data/orders-0/00000000000000000000.timeindex\ntimestamp: 1000 offset: 12\n",
        b"Dumping /data/orders-0/00000000000000000012.snapshot\nproducerId: 1 producerEpoch: 0 coordinatorEpoch: -1 x: y\n",
        b"offset: 12 position: 4096\noffset: 24 position: 8192\n",
        b"timestamp: 1000 offset: 12\n",
    ],
)
def test_a_text_of_another_file_than_a_log(broker: Path, text: bytes) -> None:
    read = Read(broker, text)
    assert (read.replicas, read.told) == ({}, [("dump-of-no-log", None)])


def test_an_index_beside_its_log_in_one_text_is_no_problem(broker: Path) -> None:
    read = Read(broker, b"Dumping /data/orders-0/00000000000000000000.index\noffset: 12 position: 4096\n" + WHOLE)
    assert (read.spans, read.told) == (SPANS, [])


@pytest.mark.parametrize("prefix", [b"> ", b"    ", b"\t", b"kafka-0 | ", b"\x1b[32m", b"2026-11-21T10:00:00Z "])
def test_lines_behind_something_are_told_not_lost(broker: Path, prefix: bytes) -> None:
    read = Read(broker, b"".join(prefix + part for part in WHOLE.splitlines(keepends=True)))
    assert (read.spans, read.told) == ([], [("unusable-dump", 1)])


def test_batch_lines_that_do_not_begin_their_line(broker: Path) -> None:
    read = Read(broker, START + b"    " + line(0, 2, 0))
    assert (read.spans, read.told) == ([], [("dump-malformed", 3)])


def test_a_batch_line_that_was_wrapped(broker: Path) -> None:
    read = Read(broker, START + line(0, 2, 0) + line(3, 3, 100).replace(b" compresscodec", b"\ncompresscodec"))
    assert (read.spans, read.told) == ([(0, 2)], [("dump-malformed", 4)])


def test_an_article_about_dumps_is_told(broker: Path) -> None:
    read = Read(broker, b"Here is what I saw on the leader:\n" + WHOLE)
    assert (read.spans, read.told) == ([], [("unusable-dump", 2)])


def test_notes_are_none(broker: Path) -> None:
    assert Read(broker, b"It took an hour. The offset: position: 7 is what we look for.\n").told == [("unrecognised-files", None)]


def test_a_text_without_its_head_is_not_whole(broker: Path) -> None:
    read = Read(broker, line(7, 7, 300) + line(8, 8, 400), "orders-0.txt")
    assert (read.spans, read.told) == ([(7, 7), (8, 8)], [("dump-truncated", 1)])


def test_a_text_that_lacks_its_first_two_lines_begins_where_its_first_batch_does(broker: Path) -> None:
    read = Read(broker, line(40, 42, 0) + line(43, 43, 100), "orders-0.txt")
    assert ([file.base_offset for file in read.replicas["orders-0"].segments], read.told) == ([40], [])


# --- of which replica it is ---

BARE = [b"Dumping 00000000000000000000.log\n", b"Dumping ./00000000000000000000.log\n", b""]


@pytest.mark.parametrize(
    "first", [*BARE, b"Dumping broker-1/00000000000000000000.log\n", b"Dumping /backup/broker-1/00000000000000000000.log\n"]
)
@pytest.mark.parametrize("place", ["dump.txt", "broker-1.txt", "data-0/dump.txt", "kafka-0/leader.txt", "node-3/y.txt", "dumps-2/1.txt"])
def test_no_partition_is_made_of_the_name_of_a_brokers_folder_or_a_disk(broker: Path, first: bytes, place: str) -> None:
    read = Read(broker, first + BODY, place)
    assert (read.replicas, read.told) == ({}, [("unknown-replica", 1)])


@pytest.mark.parametrize("name", ["broker-1", "node-3", "kafka-0", "my-cluster-kafka-0", "orders-1"])
def test_nor_of_a_brokers_folder_of_any_name(tmp_path: Path, name: str) -> None:
    read = Read(tmp_path / name, BARE[0] + BODY)
    assert (read.replicas, read.told) == ({}, [("unknown-replica", 1)])


@pytest.mark.parametrize("first", BARE)
@pytest.mark.parametrize(
    "place", ["orders-0/dump.txt", "data-0/orders-0/1.txt", "orders-0.txt", "data-0/orders-0.dump.txt.gz", "x/orders-0"]
)
def test_a_folder_or_a_file_that_is_named_for_a_partition_says_it(broker: Path, first: bytes, place: str) -> None:
    read = Read(broker, first + BODY, place)
    assert (list(read.replicas), read.spans, read.told) == (["orders-0"], SPANS, [])


def test_a_folder_and_a_file_that_say_two_partitions_say_none(broker: Path) -> None:
    read = Read(broker, BARE[0] + BODY, "orders-0/payments-3.txt")
    assert (read.replicas, read.told) == ({}, [("unknown-replica", 1)])


@pytest.mark.parametrize("topic", ["logs", "data", "kafka-events", "node"])
def test_a_full_path_is_believed_whatever_the_topic_is_called(broker: Path, topic: str) -> None:
    read = Read(broker, f"Dumping /var/lib/kafka/data-0/{topic}-0/00000000000000000000.log\n".encode() + BODY)
    assert (list(read.replicas), read.told) == ([f"{topic}-0"], [])


@pytest.mark.parametrize("topic", ["logs", "kafka", "broker"])
def test_so_is_a_folder_beside_the_checkpoints_of_a_log_directory(broker: Path, topic: str) -> None:
    (broker / "data-0").mkdir(parents=True)
    (broker / "data-0" / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 1 4\n")
    read = Read(broker, BARE[0] + BODY, f"data-0/{topic}-1/dump.txt")
    assert (list(read.replicas), read.told) == ([f"{topic}-1"], [])
