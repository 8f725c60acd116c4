"""How plans, predictions and comparisons look in a notebook: HTML with SVG inside, light or dark as the page is.

    width of a part = its share of the whole x width of the bar                                (1)

Colours are those of the report's page by meaning: computing blue, communication orange, waiting grey.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

WIDTH, BAR = 520, 16
COLOURS = {
    "forward": "#3b76b4", "backward": "#5f9bd1", "recompute": "#9dc3e6", "optimizer": "#2f5d3a",
    "tp_comm": "#d98c3f", "ep_comm": "#a8622c", "cp_comm": "#c9b037", "dp_comm": "#e8b074", "pp_comm": "#b5651d", "offload": "#8c564b", "bubble": "#b8b8b8",
    "weights": "#3b76b4", "gradients": "#5f9bd1", "activations": "#6aa84f", "workspace": "#d9b44a",
    "communicators": "#e8b074", "context": "#b8b8b8", "fragments": "#dddddd", "margin": "#efefef",
}
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))


def digits(value: float) -> str:
    """Three significant digits, all before the point where there are more, and never an exponent of ten: 1234.5 is "1234"."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def count(value: float) -> str:
    """1234567 as "1.23 M"."""
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{digits(value / size)} {unit}"
    return digits(value)


def counted(number: int, noun: str) -> str:
    """ "1 stage", "2 stages"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{digits(seconds / size)} {unit}"
    return f"{digits(seconds * 1e9)} ns"


def gibibytes(value: float) -> str:
    return f"{value / 2**30:.1f} GiB"


def bar(parts: Mapping[str, float], whole: float, limit: float = 0) -> str:
    """A bar of coloured parts by (1); `limit` is drawn as a line."""
    drawn, at = [], 0.0
    scale = WIDTH / max(whole, limit, 1e-30)
    for name, value in parts.items():
        if value <= 0:
            continue
        drawn.append(f'<rect x="{at * scale:.1f}" y="0" width="{value * scale:.1f}" height="{BAR}" '
                     f'fill="{COLOURS.get(name, "#888888")}"><title>{html.escape(name)}</title></rect>')
        at += value
    if limit:
        drawn.append(f'<line x1="{limit * scale:.1f}" y1="0" x2="{limit * scale:.1f}" y2="{BAR}" '
                     'stroke="currentColor" stroke-width="2"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{BAR}" '
            f'viewBox="0 0 {WIDTH} {BAR}" role="img">{"".join(drawn)}</svg>')


def legend(names: Iterable[str]) -> str:
    return " ".join(f'<span style="white-space:nowrap"><span style="color:{COLOURS.get(name, "#888888")}">&#9632;</span> '
                    f"{html.escape(name)}</span>" for name in names)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells that begin with "<svg" are taken as they are; all others are text."""
    def cell(text: str) -> str:
        return text if text.startswith("<svg") else html.escape(text)

    head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in headers)
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{cell(text)}</td>' for text in row) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def heading(text: str) -> str:
    return f"<div><b>{html.escape(text)}</b></div>"
