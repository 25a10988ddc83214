"""The sheet that figures are drawn on: sizes, colours, title, legend, and text in any script.

Matplotlib is imported inside the functions, so that a process that draws nothing does not load it; figures are made
without pyplot, so that nothing global is left behind and any thread may draw.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

DPI = 150
WIDTH_PX = 1080
"""A phone shows it at a third of this: text of 15 points is then as large as 10 pixels."""
PANEL_PX = 500
FONT, SMALL, TITLE = 16.0, 14.5, 18.0

# Okabe and Ito's palette, told apart by colour-blind readers; yellow is left out for want of contrast on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#b8b8b8"
LONGEST = 52
"""Characters that fit beside a line's sample in the legend."""


def canvas(n_panels: int, legend_rows: int, panel_px: int = PANEL_PX) -> tuple[Any, Any, float]:
    """A figure with its panels between a title and room for the legend, and its width in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    above, foot, line = 125, 92, 46
    panel = min(panel_px, 620) if n_panels > 1 else max(panel_px, 640)
    height = above + n_panels * panel + foot + max(1, legend_rows) * line
    figure = Figure(figsize=(WIDTH_PX / DPI, height / DPI), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    bottom = (foot + max(1, legend_rows) * line) / height
    axes = figure.subplots(n_panels, 1, squeeze=False)[:, 0]
    figure.subplots_adjust(left=0.13, right=0.965, top=1 - above / height - 0.02, bottom=bottom + 0.015, hspace=0.42)
    return figure, list(axes), WIDTH_PX


def style(axis: Any) -> None:
    """Ticks, grid and frame of a panel are as in every figure."""
    axis.tick_params(labelsize=SMALL)
    axis.grid(True, color="#e3e3e3", linewidth=0.9)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def head(figure: Any, title: str, caption: str, width_px: float) -> None:
    """Title and caption stand above the panels, as large as fits."""
    height = figure.get_size_inches()[1] * DPI
    text, families = printable(shorten(title, 90))
    line = figure.text(0.03, 1 - 18 / height, text, fontsize=TITLE, fontweight="bold", va="top", family=families)
    # Smaller letters first, down to the size of the other text; then the middle goes.
    line.set_fontsize(max(SMALL, min(TITLE, TITLE * 0.94 * width_px / line.get_window_extent().width)))
    for longest in range(min(len(title), 90) - 1, 10, -2):
        if line.get_window_extent().width <= 0.95 * width_px:
            break
        line.set_text(printable(shorten(title, longest))[0])
    figure.text(0.03, 1 - 68 / height, caption, fontsize=SMALL, color="#444444", va="top")


def handle(colour: str, style: Any, marker: str) -> Any:
    """What a line looks like, for the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=style, marker=marker, linewidth=3, markersize=9)


def legend(figure: Any, axis: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend under everything, where it cannot cover data."""
    shown = [printable(label) for label in labels]
    families = list(dict.fromkeys(f for _, fs in shown for f in fs))
    figure.legend(
        handles,
        [text for text, _ in shown],
        loc="lower left",
        bbox_to_anchor=(0.02, 0.004),
        frameon=False,
        handlelength=3.2,
        labelspacing=0.35,
        prop={"size": SMALL, "family": families},
    )


def shorten(text: str, longest: int = LONGEST) -> str:
    """The text with its middle left out where it is too long: names differ at their ends."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def printable(text: str) -> tuple[str, list[str]]:
    """The text with what no installed font can draw left out, and the fonts to draw it with, first choice first.

    Dollar signs are escaped, since matplotlib reads what stands between two of them as mathematics.
    """
    text = " ".join(text.split())
    families = ["DejaVu Sans"]
    kept = text
    if not text.isascii():
        families += _cjk_families()
        glyphs = set().union(*(_glyphs(f) for f in families))
        kept = " ".join("".join(c for c in text if ord(c) in glyphs).split())
    kept = kept.replace("$", r"\$")
    return (f" {kept}" if kept.startswith("_") else kept), families


def _cjk_families() -> list[str]:
    """Fonts of this machine that draw Chinese, the usual ones first."""
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    usual = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei")
    return [f for f in (*usual, "Source Han Sans SC", "PingFang SC", "Microsoft YaHei", "SimHei") if f in installed][:1]


def _glyphs(family: str) -> set[int]:
    from matplotlib import font_manager

    return set(font_manager.get_font(font_manager.findfont(family)).get_charmap())


def png(figure: Any) -> bytes:
    """The figure as a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
