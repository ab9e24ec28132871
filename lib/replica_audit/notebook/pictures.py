"""What all plots share: colours that colour-blind people can tell apart, and a picture for viewers that run no script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import altair as alt
from altair.utils.mimebundle import spec_to_mimebundle

# Paul Tol's light scheme: told apart with any colour vision, and dark text can be read on each
COLOURS = ("#77AADD", "#EE8866", "#EEDD88", "#44BB99", "#FFAABB", "#99DDFF", "#BBCC33", "#DDDDDD")
LOUD, QUIET, INK = "#CC3311", "#0077BB", "#222222"
_RENDERER = "replica-audit"
_OF_SHAPES = re.compile(r' (?:aria-[a-z]+|role|pointer-events|stroke-miterlimit)="[^"]*"')


def cycled(values: Sequence[str]) -> list[str]:
    """A colour for each value, from the start again where there are more; plots write the value beside it."""
    return [COLOURS[place % len(COLOURS)] for place in range(len(values))]


def finished(chart: Any, *, title: str, subtitle: str, description: str, width: int = 640) -> alt.LayerChart:
    """A plot with title and text alternative, ready to be shown or saved.

    Args:
        chart: the layers.
        title: what it is about.
        subtitle: how to read it.
        description: what it shows, in sentences, for who does not see it.
        width: in pixels.
    """
    if alt.renderers.active == "default":  # whoever chose another one keeps it
        alt.renderers.register(_RENDERER, _shown)
        alt.renderers.enable(_RENDERER)
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", subtitleColor="#555555")
    drawn = chart.properties(title=heading, description=description, width=width, background="white")
    made: alt.LayerChart = drawn.configure_axis(labelLimit=260, labelColor=INK, titleColor=INK).configure_view(stroke="#DDDDDD")
    return made


def _shown(spec: dict[str, Any], **_options: Any) -> dict[str, Any]:
    """The plot itself, a picture of it for viewers that cannot draw it, and its text alternative."""
    said = str(spec.get("description", "a plot"))
    versions: Any = {"vegalite_version": alt.VEGALITE_VERSION, "vega_version": alt.VEGA_VERSION, "mode": "vega-lite"}
    drawn: Any = spec_to_mimebundle(spec, format="vega-lite", **versions)
    picture: Any = spec_to_mimebundle(spec, format="svg", engine="vl-convert", **versions)
    named = {kind: _with_one_label(svg, said) for kind, svg in picture.items()}
    return {**drawn, **named, "text/plain": said}


def _with_one_label(svg: str, said: str) -> str:
    """A picture that reads as one sentence, not as a hundred shapes."""
    return _OF_SHAPES.sub("", svg).replace("<svg ", f'<svg role="img" aria-label="{escape(said)}" ', 1)
