"""The batches of two replicas as boxes over offsets."""

from __future__ import annotations

import altair as alt
import pandas as pd

from replica_audit.notebook.pictures import INK, LOUD, cycled, finished
from replica_audit.report.layout.paragraphs import offsets


def batch_plot(both: pd.DataFrame, name: str, leader_id: int, follower_id: int) -> alt.LayerChart:
    """Plot the batches of a leader and a follower.

    Args:
        both: as of `batch_frames.side_by_side`.
        name: of the partition.
        leader_id: the leader's broker.
        follower_id: the follower's.
    """
    sides = {f"leader {leader_id}": "leader", f"follower {follower_id}": "follower"}
    data = pd.concat([_side(both, row, side) for row, side in sides.items()], ignore_index=True)
    epochs = sorted(set(data["epoch"]), key=int)
    y = alt.Y("side:N", sort=list(sides), title=None, scale=alt.Scale(paddingInner=0.3))
    x = alt.X("base_offset:Q", title="offset", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(format=",d", tickMinStep=1))
    base = alt.Chart(data).encode(x=x, y=y)
    boxes = base.mark_bar(strokeWidth=2).encode(
        x2="end_offset:Q",
        color=alt.Color("epoch:N", title="leader epoch", sort=epochs, scale=alt.Scale(domain=epochs, range=cycled(epochs))),
        opacity=alt.condition("datum.truncated", alt.value(0.6), alt.value(1)),
        stroke=alt.condition("datum.is == 'same'", alt.value("white"), alt.value(LOUD)),
        tooltip=["side:N", "base_offset:Q", "last_offset:Q", "epoch:N", "records:Q", "crc:N", "is:N", "truncated:N"],
    )
    struck = base.transform_filter("datum.truncated").mark_rule(color=LOUD, strokeWidth=2).encode(x2="end_offset:Q")
    middles = base.mark_text(color=INK, fontWeight="bold", dy=-8).encode(x="middle:Q", text="epoch:N")
    said = "; ".join(
        f"{row['side']}: {offsets(row['base_offset'], row['end_offset'])} epoch {row['epoch']}, {row['fate']}"
        for row in data.to_dict("records")
    )
    return finished(
        alt.layer(boxes, struck, middles).properties(height=130),
        title=f"{name}: batches of leader {leader_id} and follower {follower_id}",
        subtitle="numbers are leader epochs; outlined in red: the other side has another batch or none there; struck through: truncated",
        description=f"Batches of both sides of {name}. {said or 'None'}.",
    )


def _side(both: pd.DataFrame, row: str, side: str) -> pd.DataFrame:
    held = both[both[f"{side}_last_offset"].notna()]
    made = pd.DataFrame(
        {
            "side": row,
            "base_offset": held["base_offset"].astype("int64"),
            "last_offset": held[f"{side}_last_offset"].astype("int64"),
            "epoch": held[f"{side}_epoch"].astype(str),
            "records": held[f"{side}_records"],
            "crc": held[f"{side}_crc"],
            "is": held["is"],
            "truncated": held["truncated"] & (side == "follower"),
        }
    )
    made["end_offset"] = made["last_offset"] + 1
    made["middle"] = (made["base_offset"] + made["end_offset"]) / 2
    made["fate"] = made["is"].astype(str) + made["truncated"].map({True: ", truncated", False: ""})
    return made
