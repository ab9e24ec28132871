"""Records and committed offsets, as bytes and as text, for tests.

Batches are encoded by kafka-python and compressed by pyarrow, commits by hand from the schemas of OffsetCommitKey and OffsetCommitValue.
What is named for Kafka is what Kafka itself wrote: MemoryRecordsBuilder (clients 4.2.0) and kafka-dump-log of the version that is told.
"""

from __future__ import annotations

import base64
import struct
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa

from replica_audit.formats.dump import dump_log
from replica_audit.formats.segment.segment_scan import base_offset_of
from replica_audit.model import SegmentFile
from tests.formats import kafka_files as kf

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP = 1_700_000_000_000
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
COMMIT, ABORT = struct.pack(">hh", 0, 1), struct.pack(">hh", 0, 0)  # the keys of the markers
Pair = tuple[bytes | None, bytes | None]


def batch(
    base_offset: int,
    *pairs: Pair,
    deltas: Sequence[int] | None = None,
    codec: Codec = "none",
    producer_id: int = -1,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """A batch of magic 2 with these keys and values; a producer id makes it transactional."""
    is_transactional = producer_id >= 0
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional, producer_id, 0 if is_transactional else -1, -1, 1 << 30)
    for delta, (key, value) in zip(deltas or range(len(pairs)), pairs, strict=True):
        builder.append(delta, TIMESTAMP + delta, key, value, list(headers))
    return with_codec(kf.with_field(bytes(builder.build()), ">q", 0, base_offset), codec)


def records_batch(
    records: Sequence[tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
    *,
    codec: Codec = "none",
    producer_id: int = -1,
) -> bytes:
    """A batch of records by offset, milliseconds behind TIMESTAMP, key, value and headers; a producer id makes it transactional."""
    is_transactional, base = producer_id >= 0, records[0][0]
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional, producer_id, 0 if is_transactional else -1, -1, 1 << 30)
    for offset, delay, key, value, headers in records:
        builder.append(offset - base, TIMESTAMP + delay, key, value, list(headers))
    return with_codec(kf.with_field(bytes(builder.build()), ">q", 0, base), codec)


def encoded(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Headers as they stand in a record, with their number before them; nothing where there are none. Each part has 63 bytes at most."""
    made = bytes([2 * len(headers)])
    for name, value in headers:
        made += bytes([2 * len(name.encode())]) + name.encode() + (b"\x01" if value is None else bytes([2 * len(value)]) + value)
    return made if headers else b""


def with_codec(made: bytes, codec: Codec, records: bytes | None = None) -> bytes:
    """The batch (magic 2) with its records compressed, or with other bytes in place of its records."""
    changed = bytearray(made[:61]) + (compress(made[61:], codec) if records is None else records)
    changed[22] = changed[22] & ~0x07 | CODECS.index(codec)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    return kf.sealed(changed)


def compress(data: bytes, codec: Codec) -> bytes:
    """What Kafka's clients make of it; for snappy that is xerial's framing, blocks of 32 KiB."""
    if codec == "none":
        return data
    if codec != "snappy":
        return pa.Codec(codec).compress(data, asbytes=True)
    blocks = (pa.Codec("snappy").compress(data[at : at + 32768], asbytes=True) for at in range(0, len(data), 32768))
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def control_batch(offset: int, key: bytes, *, producer_id: int = -1) -> bytes:
    """One control record with this key: version and type."""
    made = bytearray(batch(offset, (key, struct.pack(">hi", 0, 3)), producer_id=producer_id))
    made[22] |= kf.CONTROL
    return kf.sealed(made)


def wrapper(magic: int, offset: int, codec: Codec, entries: bytes, *, value: bytes | None = None, append_time: bool = False) -> bytes:
    """A compressed entry of magic 0 or 1 with the offset of its last record; `value` in place of the compressed entries."""
    held = compress(entries, codec) if value is None else value
    attributes = CODECS.index(codec) | (0x08 if append_time else 0)
    body = struct.pack(">bB", magic, attributes) + (struct.pack(">q", TIMESTAMP) if magic else b"")
    body += struct.pack(">ii", -1, len(held)) + held
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def commit_key(group_id: str = "g", topic: str = "t", partition: int = 0, *, version: int = 1) -> bytes:
    """An OffsetCommitKey, or a key of another version that looks like one."""
    return struct.pack(">h", version) + b"".join(map(_string, (group_id, topic))) + struct.pack(">i", partition)


def commit_value(
    version: int, offset: int, *, epoch: int = -1, metadata: str = "", timestamp: int = TIMESTAMP, tags: bytes = b"\x00"
) -> bytes:
    """An OffsetCommitValue; `tags` are the tagged fields of version 4."""
    made = struct.pack(">hq", version, offset) + (struct.pack(">i", epoch) if version >= 3 else b"")
    text = metadata.encode()
    made += bytes([len(text) + 1]) + text if version >= 4 else _string(metadata)
    made += struct.pack(">q", timestamp) + (struct.pack(">q", timestamp + 1) if version == 1 else b"")
    return made + (tags if version >= 4 else b"")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def raw(*paths: Path) -> list[SegmentFile]:
    """The segment files as parts of a log."""
    return [SegmentFile(path=str(path), source="raw", base_offset=base_offset_of(path), size_bytes=path.stat().st_size) for path in paths]


def texts(*paths: Path) -> list[SegmentFile]:
    """The parts of texts of kafka-dump-log as parts of a log."""
    found = []
    for path in paths:
        with path.open("rb") as stream:
            for part in dump_log.sections(stream):
                file = SegmentFile(path=str(path), source="dump", base_offset=part.segment_base_offset or 0, size_bytes=0)
                found.append(replace(file, byte_start=part.byte_start, byte_end=part.byte_end, first_line=part.first_line))
    return found


def _unpacked(packed: str) -> bytes:
    return zlib.decompress(base64.b85decode(packed))


# By magic, codec and type of timestamp, each with the three records that the test of them spells out.
KAFKA_BATCHES = {
    ("0", "none", "NoTimestampType"): (
        "AAAAAAAAACgAAAA1KV9sjAAAAAAAAmsxAAAAJWZpcnN0IHZhbHVlLCBmaXJzdCB2YWx1ZSwgZmlyc3QgdmFsdWUAAAAAAAAAKQAAAA55V0jgAAD/////AAAAAAAAAAAAAA"
        "AsAAAADj0xSJUAAAAAAAD/////"
    ),
    ("0", "gzip", "NoTimestampType"): (
        "AAAAAAAAACwAAABfJvqVuAAB/////wAAAFEfiwgAAAAAAAD/Y2AAAw0gNtWMz+kB85iyDYGkalpmUXGJQlliTmmqjgIuDkQ/gyYQ81WGezxgYPgPBAwIoAOSsTX0mArhgm"
        "QBm1LwhnUAAAA="
    ),
    ("0", "snappy", "NoTimestampType"): (
        "AAAAAAAAACwAAAB2nxPzxQAC/////wAAAGiCU05BUFBZAAAAAAEAAAABAAAAVHUAAAkBICgAAAA1KV9sjAUPTAJrMQAAACVmaXJzdCB2YWx1ZSwgXg0ABTFAAAApAAAADn"
        "lXSOAAAP////8NFgEBACwBGjQ9MUiVAAAAAAAA/////w=="
    ),
    ("0", "lz4", "NoTimestampType"): (
        "AAAAAAAAACwAAAB04ivH5AAD/////wAAAGYEIk0YYEAaVwAAABIAAQCRKAAAADUpX2yMDwD/BQJrMQAAACVmaXJzdCB2YWx1ZSwgDQAFATEA8AIAACkAAAAOeVdI4AAA//"
        "///xMAAwIAECwaAOA9MUiVAAAAAAAA/////wAAAAA="
    ),
    ("1", "none", "CreateTime"): (
        "AAAAAAAAACgAAAA9/Rt8hAEAAAABi8/laAAAAAACazEAAAAlZmlyc3QgdmFsdWUsIGZpcnN0IHZhbHVlLCBmaXJzdCB2YWx1ZQAAAAAAAAApAAAAFujoUbgBAAAAAYvP5W"
        "f9/////wAAAAAAAAAAAAAALAAAABaXtFQAAQAAAAGLz+VoRgAAAAD/////"
    ),
    ("1", "gzip", "CreateTime"): (
        "AAAAAAAAACwAAABzVyBGWwEBAAABi8/laEb/////AAAAXR+LCAAAAAAAAP9jYIAD27/SNS2MQAZj9/mnGSARpmxDIKmalllUXKJQlphTmqqjgIsDNQSkX+zFi8AdMIPS//"
        "4HAoQtDCwgFdO3hDDArXIDCYNUAQC23atIjQAAAA=="
    ),
    ("1", "gzip", "LogAppendTime"): (
        "AAAAAAAAACwAAABtcP1kLAEJAAAAAAAAE4j/////AAAAVx+LCAAAAAAAAP9jYIAD2/yjxs2MHBCOcAeQYMo2BJKqaZlFxSUKZYk5pak6Crg4UEMYgVjs6YQ+CYRB/4EAYQ"
        "sDC0jFwm99uShWMYBUAQAZ2wbkjQAAAA=="
    ),
    ("1", "snappy", "CreateTime"): (
        "AAAAAAAAACwAAACQrJKqjwECAAABi8/laEb/////AAAAeoJTTkFQUFkAAAAAAQAAAAEAAABmjQEAABkBND39G3yEAQAAAAGLz+VoARhMAmsxAAAAJWZpcnN0IHZhbHVlLC"
        "BeDQABMAgAAAABQBAW6OhRuAEJAUkUZ/3/////ARsNARwEAAAAFpe0VAUrNAGLz+VoRgAAAAD/////"
    ),
    ("1", "lz4", "CreateTime"): (
        "AAAAAAAAACwAAACH7SGjzgEDAAABi8/laEb/////AAAAcQQiTRhgQIJiAAAAFgABAOA9/Rt8hAEAAAABi8/laBgA/wUCazEAAAAlZmlyc3QgdmFsdWUsIA0ABQAwAAA8AI"
        "QAAAAW6OhRuEkAYWf9/////xwAAgIAEAQiADGXtFQrAAFrAJBGAAAAAP////8AAAAA"
    ),
    ("2", "none", "CreateTime"): (
        "AAAAAAAAACgAAAB2AAAABwLl0SazAAAAAAAEAAABi8/laAAAAAGLz+VoRv//////////////////AAAAA2oAAAAEazFKZmlyc3QgdmFsdWUsIGZpcnN0IHZhbHVlLCBmaX"
        "JzdCB2YWx1ZQQCaAQBAgJuAQwABQIBAAAOAIwBCAABAA=="
    ),
    ("2", "none", "LogAppendTime"): (
        "AAAAAAAAACgAAAB2AAAABwJJl7JSAAgAAAAEAAABi8/laAAAAAAAAAATiP//////////////////AAAAA2oAAAAEazFKZmlyc3QgdmFsdWUsIGZpcnN0IHZhbHVlLCBmaX"
        "JzdCB2YWx1ZQQCaAQBAgJuAQwABQIBAAAOAIwBCAABAA=="
    ),
    ("2", "gzip", "CreateTime"): (
        "AAAAAAAAACgAAAB0AAAABwL76ib7AAEAAAAEAAABi8/laAAAAAGLz+VoRv//////////////////AAAAAx+LCAAAAAAAAP/LYmBgYMk29ErLLCouUShLzClN1VHAxWFhym"
        "BhZGLKY+RhYGViZGDgY+hh5GBgZAAAjkFihkUAAAA="
    ),
    ("2", "snappy", "CreateTime"): (
        "AAAAAAAAACgAAAB4AAAABwLTYWOkAAIAAAAEAAABi8/laAAAAAGLz+VoRv//////////////////AAAAA4JTTkFQUFkAAAAAAQAAAAEAAAAzRVBqAAAABGsxSmZpcnN0IH"
        "ZhbHVlLCBeDQBcBAJoBAECAm4BDAAFAgEAAA4AjAEIAAEA"
    ),
    ("2", "lz4", "CreateTime"): (
        "AAAAAAAAACgAAAB0AAAABwLfm8R+AAMAAAAEAAABi8/laAAAAAGLz+VoRv//////////////////AAAAAwQiTRhgQII0AAAA/wZqAAAABGsxSmZpcnN0IHZhbHVlLCANAA"
        "XwCQQCaAQBAgJuAQwABQIBAAAOAIwBCAABAAAAAAA="
    ),
    ("2", "zstd", "CreateTime"): (
        "AAAAAAAAACgAAABxAAAABwL9BIIVAAQAAAAEAAABi8/laAAAAAGLz+VoRv//////////////////AAAAAyi1L/0AWKQBANQCagAAAARrMUpmaXJzdCB2YWx1ZSwgBAJoBA"
        "ECAm4BDAAFAgEAAA4AjAEIAAEAAQABnEwBAAA="
    ),
}

# Segments of `__consumer_offsets`: commits, deletions, other records and, but for "magic-1", committed, aborted and open transactions.
OFFSETS_SEGMENTS = {
    "magic-1": _unpacked(
        "c-muNfCGDh%LU&Vfegm(^G`ECBD@TY3{2^U42&gEB{B?*P!<=6U@U3RYk<)(84zt>zfpB5Zlf4cjN)cMG6GC9L1jR+&DGiFJK#n!fsJB77zGlLgnNO9fwdqfF*6U%9A+Rc"
        "xH@a9Es8m+Ko^LlTN&vnRM;L~qEL`nnUkNGVx?fnz+R$Ts#g|Y4%KQ3cd7`3WUf`JPHt*RVoG93qHPI6mpRl<W+=@9)dHd&bN4J$huaMj;RhPYlAfQJiY;szafU4`5SyI-"
        "pCAP{3?#w^3<XetFfd2}^>QTV=M|UcrWS#e{09O=3<FgHz0LV*?JKx`HY|=o(!>tLa^9!Si{TnTA{;;q!5Tm+0WleAAO"
    ),
    "magic-2": _unpacked(
        "c-muNfP;xZ%*@m|--;K^Wdx$`^G`DvVDx_!02F450}@g|g-q#&42&fpO%@<+V88`7qoh5r0Y)=20M#?0sAoi|=Vm~tgV0Pchk+P-!H$c0cIYkxGm_(&U^J%VSd@Gv5*(Up"
        "f$RqnV23h5E#_oUF#?+K*?@<EwIC-kGY@Xz0id}|UO+jKbSonrg$molOB4zcD|7M_Q>+vW8Q4p7OZCd)%Rz3*VqkP<_{Jo{Aen2Gs*{^ql9-ZMl4x6E%phzY#jt=GY9<Q<"
        "5&&_M!5&GT{=NVv3ibdCjK=T?V-k>%1G<SNJwGoMBb*trgfkSd0&y7FI(r4LG!*MtVKk<79zcQz80NsRG60&+k({4bT$-C&1d@ZQfde)mb_d(QDc8Oj#RfJQjcJ1x77xK4"
        "%?`v4U?csPbG|?^k{w248Yu%L1b~hP8wody1D>i&;?p(*6(AB02ZDxM3r%hKQgsSEwAr9EJ7%h8MW{Ezq8=%OB!V5s#(Iw##iLv>8q=fr92W(*j2%kDd<V{55X(0EMBE04"
        "1k5sS1Pu=~s5HVd6Aa5(;g)egX-=3v9w2rCTUP(+cMXF9l4U#y8W!v@pD94?X5@kA6)@n1J3Tab_7oJS^CD<4;Kb&1Qw*oG!JW<trMY1G_~1_Wi#lV0;&eU)4GSl9r!$~A"
        "ogZ$R_Zz<BD5mivXqeLp1%v=RAe;qmpFs%-0R)XGe9;5K3?m@e;Q_$~rD2JHK@e_P%8s)kD3%E#Xi`Gm32qrTl;&Xo0F~}aWd"
    ),
    "value-3": _unpacked(
        "c-muNfP-EjW@h^9Tht5YG6GTe`KK8SF#10V017jO0SPIfLZ);>2F4PQCIbd$sA*h4%nCNAq&=^Jfguj49z`vq1;`38;D)PXgwjkfM}ZhS!4CU(<ORfZn8TQ0G^WE?lzb%;"
        "9GWVD><1BGM>0Sy=44PY0-EsIfQNy#ASW?14{qTGpt($5Ksk|gD<d6+3fsd=6bce6bMg~YtP~6x*h_Rv^~&PQL2ij+U~*^p#w5ZZnQN7*lbc$Sn37nMXj@{;u)rK@9y0?H"
        "U;*NIuqQT!tki^wf*sESqcJ?e7zHHcfbL;Q&(BN62wz6HF_7?u0#J~LfvvJv@Jd6miWNp<TIB&Gcz|II3?l=e$sEb~dBvr<sYM_;s2Vt617dfu4V-fAi&1P~gVC5aXkqaT"
        "+zaeL>;N{>e>vw16eHPTG^UX<KtcfMXt0rRvp9gb6Kt05#bt|t3J?i~13|;Bg{CrmDLDn|X-G)3fr1w`C9@*b8lkC0$_%k!M?G$Fc17_Z7mUXAAU;P$p;!d>2{+uL?wsmt"
        "VBf<m;zrQ$fPzXREHc5ch!w>mxF#MTb^=>e|LJ!PP(8vT9s~^wW|)r@p!PEI!1Dzd@WP#)meG-d;%r_74F;UpoNbEXY&H~U!!_~2o$VKO#sbCJd<YsAKIqP7Kyx-f+%)eu"
        "e8*8t<44diXA=qp0eB#^y=_oK2?PNI4Np%PfnbIa2<#|<0M{f4x2SK0VGxQ%f(V+F&~`$xh?@Zb<aRkB"
    ),
    "value-4": _unpacked(
        "c-oazO=uHA6rSB|e!ESRHpTiw3{rn6QPb4g5?Tqx+R~DfQfk1qOa2s^q{K~agBGa=5y@3NDD)sGda<BF5iHmi6og#8h+Ya6R0PF~M14D*neAkx;*huBX7|naeecc8BE&`+"
        "!Xj5=g);st!S7~e{XC-hn;Y<09)Zg)NR%_}NYaf-A!H$JE(j~;(XZ#OA~Xj1T&~n@NZ?V&@+5*XHD%l^VPn5mH#XU+F`1%hOxYJ}nTXEM!u^L)Y!VS+Cu$7?!?%!%tW%TP"
        "g&Y%n47~CXyz^xu;b35<cjaDSN}HX`YspBU9ohB6#Us<>mkcj)BoCk;vJdUdMpD6SO4pK_uJ!62XrYVnS<sfDK-|JboW8v%;lH#9g`!x*p{GZyX!MPYo+u^O=nm58Gr-~p"
        "w9}3$67uX&dJf(X52f$6qK)CDp;Nf&QukiSb6C^)V!>*7>3`*LeG1&kpqRuQ+91ZU!<I*D*XUF1%tldgD8=F82U|)epGyflfU%PuK!zP+1WSE6c{agG*(r)rgK$w{H^3@}"
        "fZ37A=Pnkrse<v2<gnp@7{ChO-)F0wf`g){(Ds*NSP4#uD5ms&RTnu*Cq<ER4_rK88dEYZ<7C{xT=St)8WPOi;4+c*ikyS(&RUYJ;AW?7Mtk|QW;JueHMwM{5a+O|hwq|u"
        "T!AV@vB2$2#W^8XNj(#K**WtWS5JlNO=RmxUYkP41R*OY#3s2R`moU3*Q+JSH-+3L(l*nI0z_9**~!JDf!Q8gm@ad+8%$(-MX=o|*tT)D*(49M?H^w5;cR<Mr2VP2jcROr"
        "8Qbpal@*T7Ya+G%uO>9ICcM}`SK*q_Xd>I>LKBV)O|WxKV3V4d(6fokb55wq#Q*7bA172t=lCE7vCxUjKijx%@1rPg`ydudfKV3^vTgZRG(+@b&gBOm*E!B+iX!I$ym%HQ"
        "Co*pO`TPTQww0U"
    ),
}

# What kafka-dump-log of these versions, run with --offsets-decoder, printed of them.
OFFSETS_TEXTS = {
    ("magic-1", "0.10.2.2"): _unpacked(
        "c-pnn!A`?43;@vkz9JvMSnMQC8)+xtIu3BJqApAkZBw=BU?Bd6KjFvdfVI&?M+G7$D{-P{$CqtU*>XeN-QA+l8=Ju*O*2<EZDH!P+ii?*=5#^7S?9Ui%x=7{{nra!t|D~S"
        "N2GF%_12a9_@Xx2n_F8LML-765Zi2ZZr6(Vx;3QIyWHt@W1qT2jLC<pyFxNoRJCcE%&kqgvASMek*v=4Nr(w@3FO}FKJNkB$LfGm8&F=+!`t2YpoBmv#eXt^BLk7}pPUdl"
        "p?6~71To%EJP8#OpiIO}Lc#?80L1``s>-!3doByOi1<6MU=z8Klv2on%j6MP;Td^czP$!w<>&4BHhoZR*hH!dWzGuY^;&zq^uv+tOXERlj7OuT@js6Y#2lzhVjh$R;;1xN"
        "nxo<Fr6Q1a!#64wC#8JKCvZdo0E`aO=o5Nq=6+}fq$=AySD>C>dTkVHV>zmgPHE>brLR%MB##pswzYT2z#-W9|H{8RP(nl#q-=o1vv+sW!Xp"
    ),
    ("magic-2", "1.1.1"): _unpacked(
        "c-r09&2F495CGtNp2Fh1n_$2OEalLqIYey|sohhnYGuJJK>?d$lO~PwHhGi2SiNZ%Oj@gHi?T`g1m?$lo`IQt)zwWY3M5yny$igzTxL?Ju7-ALMigi@_xJo?{B|o@?7Y*w"
        ")jzH_=Q8B)^joNrs??<v>+ORUxQ0bp14B5rZi7m7!K*T7NVgrJbGTCFm-R^@GUFY5-wP5{^P<em7RqGZw4hWbb1(xZrzeM~X=UDJ&>orl%yGYa*vRbcZbZSS4nzibJEdB*"
        "TqvHcpN>}yt$3vXodM6GeQlnAp${L|kHR)CR$!)?A@Qq9ax)1Yp!olTVhf6UXkbAxiJjEofmGt8zIh)#k~FZS0c$E=iryRkt2c~oFA2BoWx)(x?ti_t$V|_>-HYXC77l}f"
        "&uRv<8Z^(j=KFd$6!&WrS!)xL#JM(+GZ)CyN_#2b-W%RqiDivw>a-G<m5!*<mZ;a>CZrzo3hdns)@#p9qh%(m#Z?35@TLZMv;K(3L|0WauK)opUr%?GdkoJ!u2flw8iY0%"
        "Uf*~({lZae;RtoVK=ffrVz`gJay=!sD3rKA^RbJPJQYb|N#cMyCCT&!E50xBEr|cK<8IzRtI9)JPM@d~|E-e@PGWT*cAu3bq05P%Yp0c3R=d?o)4*xP(_53tb2l10$-o>n"
        "TG+=<r?c~jY$ly3bLS6CT@d-=QXKR499o7BPLGd|7G`GI=B40TZf+e7;8CZAV`qsqCr%#Nbn?KGabW4-w7Vu8B+j-8M^gtjnLe;DUY@@FO<e8H35V4A5yoU{Z@QgCwmTji"
        "MUfLsr%&W{C73vq={S>z_8-Ti|3<`JcH-yw#?qZ{Pb{pQ"
    ),
    ("value-3", "2.3.1"): _unpacked(
        "c-qZa%W~T`6y5tPI9$syF5ciw7Ok6wr*S;fXw^){gHo`<2}P=WxN#l-P5-1nR?rb8LQ|lmVs&J11c1;1&$;K~Uj5Xr)>*NP%DcOZdvbAmo0di0u1s}nXKK^b=ja0c%ipWK"
        "T%Nsebk%Hj+h>yqo&Bb3bJLHaT-QxMf+#K9!hXO}_t1Ouduxi+B+)rMKj%!Wt8&q%rn*`<!#C?P{q$|7LvFINcx&`xyFj9>o>#i4b=s}zJc;gfUK=}oSr$!IZYS1d{k*+9"
        "<z;1bW9He)VuKjGWK?H=c5{qGE4|Fp?(Au~T34p7({f?##Jih!Z=$rapD3nE0AR{2+P%&*d-SGi&Dqx-JpriC=3#?IBD=da-$s~5^^llP&#(KleK?6eeC&25{nsZ;NSXv$"
        "Y98`ZTXaAJY&Za0PQ-=*HaMYxolqbr8Va4zK9+DF3`%%|;q9-qj|D*q2*Qy!7H|N`rw5y;2Oj8wlXb4MVsHX7<^)6xPe7-fAi=Zf%j>`Y8XO{N&f8b_w|^vLH;GZQO3Z9!"
        "8okhse%<VrgcC#5i6Pp@5S&&F5$1O}?PCau5eWq=1yW%lgg1z20BRRR?BIk_7G^J{IEpYw5q6@AP$s-Iv5g{1jt~S8Q%Kr>?iGXukhX&Gsd_xdy*uJ0UPAn|6XY?r)HP*V"
        "=JSWOvCIAa9nZEaaZ<E-K8u&8FqQ5|xmv^t%wk>F*|J!fqOltvpW-J+UGAvMPgGsT{G9WRx^m3@4a^#j3F>zn4*+@GW?wa+u0ywQ=oTkRHz(4|g4ob4_!zng;e>Vtlb3H1"
        "K-%&x52RZ<bSqy)g7(;U$rk%uqw!RCFB@W7fIqv-{vx4j1l58|`(+gQnU(>hF@-6bSeFh9Q}vzLBkCZw!)9)a0((6QI#Jt6?yc5f+osq%=D&l1NV`|@?n3fK1E2ub5&9Ih"
        "rwO>4fKQWsZz4w#c|>n2?sbek?i4vNAqptw*6dz6Ab|A(?xe07%oW4!+yEbHke5uA&*MSchJ@c8ecvX=RCpLD=L9hvPy+{`wrbF!7(8eVQ!M6RifdhcHdPW`-dtZ_&Fu-x"
        "YLOMXDSKL|D+_UDA%}TH9nm8I%pbU9l1V^-1kAbe-(WxjSTA4_=9+}NYPhW_9Ne4ABbo#=Z~Y2%ib;TgZK-VeCjDyA0Mz%J<cA+`ei`8rw>^b}`%`s9RS5A@#U`nO1rhcd"
        "5z4O$3qbvUsmtvvfghH-039=T(LkE#(=K?-iS2TP4CF2zz<Pn)#ogTH{;CFU-wEObZxROHRuII*a!U~+1)=_*aDrGzxJmfgKgxekBm"
    ),
    ("value-3", "2.8.2"): _unpacked(
        "c-rNe-EP}96oBvZ6ojvxMo0XUgk`{%<|0_q0E^L!4MU*Hj3d;RJW0-)c72<@$zH6aW5r@@N|YcW29n%Ze<u0q<2mH<`_*C@Co`1Z-JLw(liS-UP4d-3WViB6E{govIdS&<"
        "y_=`Aqnjekip|sV-T*mApTb;Rmq%zG=0$k~C`wm}{NN&W(~bChC6Y)4=or@bX(yIhI$cE~yO?T+=gTy@e>$UDF5)z~6yfyw0!DE@$-*QLBXupD2k0)G=R%%7OOql?pHD2)"
        "eEqoU<yj`eLQLX?Y#VrGkSLG8s&f>hML3Hi)%Pe}EHjbkQ92d!#E0t-=P1hLC*l&H1Gt3B)*ixnEW2K0D{=Ji7LUC0aeL+Ixnwn;qtD{;=BX`=<g+XBbmWqn&efr|C)|wm"
        "Q&>dzH)ax($EDbSs8Y?Vt=+G`@;C9A2k6hg)Nq3h6)D_e5f?!)%hJ{IbOz(+ew-G^j_lRrJPoJi?Wf>WfI@4a-WvxByFfvkw5~RAe4vw7aWlP0x16><H%{BjKS()iIl;g&"
        "bBwdrZ7mtC>02G^p(NV};z=^aL8sb_W$vzJ?sy@Ja2gij>2e;%Nd+)&28?+XFnNQ319yzRoc{mcmaL9^_3q*JpJTiO-gUO%7lGIw6x&<576FI`jg%1p4l4p+YEImwi~tU|"
        "NZhXPgXg=Pb7Ke~79oIICT@c2U=L-e!!7fS;@VNsG!ae7TN90HW2Xly8ll|yF6l-z-?Q)x9O^rs{AWhbXtQU`QZtI`P!FWpJ`Q^=Q&1Z%TWfV&2CQwW*=qG|B)eIpQ94(x"
        "jDk_Qdl`+NuZ#i(a6FocL}a0A{$e@`U_1)*Jf0;BkreX5Z{J7XH946^j2)<)l$ui^+sNtJ>|TJ%Fi1Hu$3WIL2Fih&yH<yKAUQqTrM80Fe+c~P{rTnj<osvNGOi7sAE;#v"
        "o3~ATV;N^QmSM~=QM+WLX1rN5&(boE>QE14***??EmKgthCr!VgIJz6THmydb6$*E*NVSH;MhyGet9)caWLmDuUx+o-$E+RJo#nBF+1h;Sa<PI9cEj)jXbMsw|x}$Dy5j_"
        "mDc;Lx>U<9{+s04eLGBdcv8Jm3NOk{&VeQZj~UA@@LVmGOV8#>i#_?Q&(u2AG;5*9aw+K5y<Oge?YpR@YYOc^B~$-}Y@iPwOtQV4ZjPp!H(+w`nQ_4(yW7Sy7h@lY%Yc|Y"
        "gC0EtRFB%0aI1i3Et%rlEkTe5$EdEDUU&nyYdq_71+qS_)Z!d&4rXNyncHmaT_B8Mhq^V6Srm~;RWVl6wR+O6Bbk+B+;(Tb##$H1L^7RxNv^`|v&aH;c71hqF_B-HX45zc"
        "i?nQ==t5zAn7CWa@&}Ar0Mxh@k^OBGw19&LE@QrVNej5gpoLLA>(>ohYp~s-7Hx=HOqWbA#zN=Pw>Mzaa;Z5qkTy{ZFc8Y+hTJntMtX}{dewWE^lL{gh1EW4{qpPe?-oHz"
        "uew6#3b#L?PZ*oy0&V4!%Q2VhEbg0qqP_W~m$!FGzqU^bYyVkLuapAomIc8XG7S>B1~I)g)^6?YGRy(ESCa-=k7-b^O7Fsc<us_kc1we-Ar0!k|AJmA1%7~QEeggT<$$-`"
        "Ao>`4924`ea=?3(OfO3BvVLXB6xe~*TI}ct_0M?Y"
    ),
    ("value-4", "3.7.1"): _unpacked(
        "c-qyO-A?016vyv*3M<zE=FIn4rBcfx6%~Zk&0SR?*BP=Fjwkg8yRf@&(>LjhbqsNmft`sHB2dT;GqH1y&+mWE%o%@Zrn9V=MCRt^_>LZ5U#F(1nyD_Y?M$WX>JS~HAN(EV"
        "W^!<0CQ(%<Wj+4|dwm?CgTIqXUv;A>PpY~bL6n-Nu>atwz38L<r_n{K<LD3`uX845r5QJ=F3-o#@N8z%Pfs(g<vKIPg-*tcFG!SCqcSO~ByGP-@;JIl@=Dw3Q&ZHXSxk&|"
        "u5109DYFMtTvl;(HG8__!W5GuJ)PC}(acnjCfX-CEp<}sQ8u;yfmjJfRAmqC93#;*nPh4Ee5skvN?lc{8EZRHm_kQsY5${`Dgl5gvmV_gd1fE4E*pLDZ5hIVsat*j@yQyA"
        "?A?ui8etk$tHJy97?R)hy?v}d|7!1w=Ra==Pp4TO$CJ`Dvy%x77jZnP50Q=PeQuI*climR70+M`&*W}AgO{FxBQ@+ujqI`1S|R!3j61O@;T2o{Ks&7oN<a{fyjsHnOFp7("
        "H$?GEqIfvfbuv!s<Ybm7S+U|M>EkF7tB%sG9gXoY`f~E$ze^8Y*PEle>(7Ve#RFipe1K`JmxFqFsc=+F9o4cuRxM%vx<xzHa_m*@LsgHTWD68w2223)%9aL9d1OoRwrU`2"
        "N+ek=k!*9%wl9%nO^GD1l;DkNN=JI!ksj})2m2>I2L3X}JLw_OXLSam08!*u9uHVr@@2bOoULE$mS+d4aFB{UM#@2X11;uAmFz*3C?zQ4f+#Oi5wNsC$~PtYi14~gzvUXZ"
        "MEG@Jqg<QR<fHqU9>jxg^F0_Yz8S<tljp<1L>IbD+Sr_r2Qdr>NmXT&VycVU-uU(V;JYIP=?FpYu@D6K@yNLlWUq}kAc-X*(k}!Vu;j^Y8;{-R_D>(qF3v`0KRZa3gH-J?"
        "Qi=RK1vN)1c%R(1*HfF^;3cX8h89HSra(QZ-TD<~2+#UqZ$pfpL3A04=Lk`Mf^C3a4N!PjL0ELdRP`W;K~fA1?B>je5KzEYpLQ7Sv>SHXVR)r$+c!__g=@?`c>%W{2E4}w"
        "18hIwjr5`;My!wEB<CD+F1cTDIAH6|&tKFtti;7id|01X5ad9W?_5Cuh(E2#Mnnl_c3r2K``2|K0b9E+A#@E;=JIq80PJwfG~MNz@HpNOC?@_C?b?6QYs1co00dn553PU("
        "Of7iQRh&GSpSl>2z7&^9d8^AfI=#BQJReyPO*zhrq&8jXsEdxd=-76tsNOpjNgzGgMyUu)3MMEG9NYj4*xGd}vNfs5U7qfN2yA^KBHuX`DR>(h;G3i(Yda>yNnowy0ZXsX"
        "#9w~B`lCl8y2l={^|^<7Z*a;VPO%9%$`w<B6aPCVe^(9S4NItdP62Ye5(?<OYpAVy-gwH*wlkpYK2wqqI~lOG>l(_})KK?z2Dqmbp!Rf4<idM$0BSRy$Y!GbP~qnpvi0U`"
        "qPr+!_r$^u_qdG|(wn8YJGZcx^w{ViDv6N5sQ<+(3YhXhCF`5WrnoK4=OT{pbXm0wm2!E3%M13Im*n0`XCG|N3wrg4z!*sT@$-U!sUN=u5L@6P2mb@yFWD#"
    ),
    ("value-4", "4.2.0"): _unpacked(
        "c-qxk-EP}96u$3M2)cGt9{x*M2Xt+QwM`JL$*zhbP-VsyB8i?Pr%k%N&E8}$HY&CpQ!o|DcA7f5F=<Li{C*C}W4)PW(<GmG`r_in6@77j9_zfEWvVzgJ*BG3=ja7m^LLQy"
        "$+IIp@yaSHs>L15_|QYoK1ZcGX<A+yl~vOMFV?f%e865k=v4hZQ+cdH?>XF!vpS}Q9?xP`yd7K3!>NwH%zNs{Rig7F6^)l)5HBguiYPCmxc)9mL+>I=OJ%xW>%1!TvSX}L"
        "RjEI8k=*F~xD36M>HLZ#olg!_Hm$C`sV?tA)H8WqsHjqBNoJl8#0nT*ncUQUjCffzN#c5bvCgK2D$7`pmFdWJuDrM~pD3n*0Kk-)C%TH##7wU$X6o5L_Yii3x>VPv^Jv5~"
        "SI^YEg{fDrg7@VPlK1M`OzY#P`l`_T?pN1S<%d4_BYzxKksp5dCxxC(P2Z&Mtn@UAO`|fOm+1N-y1g}EU#B`6*LS&6MS0inla(9IAKniEjr{bU5I<xiKT}mSALpAZ3^Z9%"
        ")sr*g$xLwID>J;kT|ojiKtetu65v7t)*%6dW^P8SZ_}huj_<KSX4P8QvKHB6Yt_ba@r)aD1;S~r^oBOx5|n@-967y(J0iIh#Rez}4OA3%DGIGq6t)yKO`{}#NLJV~6zMa4"
        "B37qQ*|vrX@yPr3^1pxYCu#xme0Fek{?&$sxM0C+V8O_OB@5N4X}+xPZzCRpinJU?Er+o^b{JvqHH9_~<Jjr2o3a|uEd~@}2222PT8wsta#)PwZ8b(VSia~QEs^%}B?cvN"
        "x_FAWV>9^ouYbySJib27qVc;|Z}h21-+!3+mLb`2u(n^}$ObFiTCku6mbAdS(6izpz*x(3-0~c6JO}&dIR@^vhBux=qR*BQNC1c;x8-<8q<a;y-R>C8^X+QS*pd+%yk%UK"
        "kgy~q_E<t30w=LzA)!F_P!I_MK^Ye$a7svYL|RISZ>%7^eqYpQKW$j3bga{}`JI{*su?j+xhkSX;u<Xn`e8mx(?(NGD^uBLbALbl_^BlrX$eN|v0wzaX_O1W$X=&ZKoUzr"
        "q+2kuBa$QM7(9Mh&iUod;nCsQ;jb3cfyH#N$4pD)-q8gMrUmbl8q9cVasxPt4mtuYiIyAlj9olG$R@O^OV08VYSC%4DcWSB{#@2jZB3<cF5j@MEzzI{ml!0)z`$&$U1S34"
        "h}EaKgr2mv)ZU%*K|2L*7nfj5D0W<2Vnd){+aqCF$*v{=-s98==7j2Gc3DqCtdF52=Nxk`x!X{<Bi2t}tqr!5k!Z_^*fJt68MQMqvP2}GI3oiPcbX)F6htsH8!3vpdm{y;"
        "Bi3W3WV#~(v90tY+xoFfZl<|m8rtQWe%Br-AWYmTs42LKUMDwB1R&snyQB@YBh*qqbX7jQGykZ3eD*Crj*3fFgx>3u<Kwqy<_UE%PV%VI4Rq9|j@i_)&8#0hwe?Ad9oZo3"
        "1CxRYN;^uWz&c_*mi5_=tk1Wye$ckQUHOBJOMmi-txv&uG6p`x`m8>JBThQ@9=s#c_RfFx+sTI>#<%NjuyMgHcxvJTH=JS!ag+xv5S+Mw;dhs5K>WazZ5O^kZkDnEJ$24D"
        "S=NcC9JXD9!0g*4>Ecdy#Coip&3BZu#Wpz`+Ld;&>uC_|>6*`lv&IF%F#RCoeDhC*TR&Z~e)=_kt3@B6{SJ#=!86T0E;|V6%tE-S<C!5nHjao&A|x>CevJingmQ?8JY016"
        "E5FS3*W4>qY?cnMR+JY6UQ{gto46ydyiBI`OM?eCm0(i|`%I<e&LnRpwxAMv9shwbkmlb_C3J*Z|I3>gP(C8<ba3}-LOk*Nym+MMCa-P#Kcfb{zy"
    ),
}
