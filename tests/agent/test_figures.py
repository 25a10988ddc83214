"""Figures: valid, of a phone's shape, without missing glyphs, and for every shape of data."""

import io
import math
import threading
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from agent import canvas, figures
from agent.points import PointData, Seed


@pytest.fixture(autouse=True)
def _glyph_warnings_are_errors() -> Iterator[None]:
    """Matplotlib warns of glyphs that it cannot draw; the reader would see boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        yield


def point(label: str, final: float, n: int = 3, epochs: int = 3, lr: float | None = None) -> PointData:
    """A point with accuracy and loss curves that level off."""
    steps = np.arange(1, epochs + 1)
    seeds = []
    for i in range(n):
        acc = (final + 0.01 * i) * (1 - np.exp(-steps / 2))
        curves = {
            "val_acc": tuple((float(x), float(y)) for x, y in zip(steps, acc, strict=True)),
            "val_loss": tuple((float(x), float(y)) for x, y in zip(steps, 2 * np.exp(-steps / 3) + 0.1, strict=True)),
        }
        seeds.append(Seed(f"exp-1/{i}", i, float(acc[-1]), "ok", curves))
    return PointData(label, label.split()[0], "digits", {} if lr is None else {"lr": lr}, tuple(seeds), epochs)


def picture(png: bytes | None) -> Image.Image:
    assert png is not None
    image = Image.open(io.BytesIO(png))
    image.load()
    return image


def has_colour(image: Image.Image, colour: str) -> bool:
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return bool((np.abs(np.asarray(image.convert("RGB")).astype(int) - wanted).max(axis=2) < 3).sum() > 40)


def test_curves_have_the_shape_of_a_phone_and_a_line_for_each_point() -> None:
    image = picture(figures.curves([point("resnet50", 0.9), point("efficientnet_b0", 0.6)], "val_acc", "exp-1: a"))

    assert image.format == "PNG"
    assert image.size[0] == 1080
    assert 1100 < image.size[1] < 1500
    assert all(has_colour(image, c) for c in canvas.COLOURS[:2])
    assert not has_colour(image, canvas.COLOURS[2])


def test_without_curves_there_is_no_figure() -> None:
    bare = PointData("a", "a", None, {}, (Seed("exp-1/1", 0, 0.5),))
    gaps = PointData("a", "a", None, {}, (Seed("exp-1/1", 0, None, "diverged", {"val_acc": ((1.0, None),)}),))

    assert figures.curves([bare, gaps], "val_acc", "exp-1") is None
    assert figures.curves([], "val_acc", "exp-1") is None


def test_one_epoch_is_drawn_as_markers() -> None:
    assert has_colour(picture(figures.curves([point("a", 0.9, epochs=1)], "val_acc", "exp-1")), canvas.COLOURS[0])


def test_gaps_and_diverged_seeds_are_drawn() -> None:
    curve = ((1.0, 0.5), (2.0, None), (3.0, 0.7), (4.0, math.nan))
    seeds = (Seed("e/1", 0, 0.7, "ok", {"val_acc": curve}), Seed("e/2", 1, None, "diverged", {"val_acc": curve[:3]}))

    assert picture(figures.curves([PointData("a", "a", None, {}, seeds)], "val_acc", "exp-1")).size[0] == 1080


def test_seeds_that_logged_at_other_steps_share_a_mean_where_both_have_values() -> None:
    a, b = ((0.0, 1.0), (10.0, 2.0), (20.0, 3.0)), ((0.0, 1.0), (15.0, 2.5))
    seeds = tuple(Seed(f"e/{i}", i, 1.0, "ok", {"x": c}) for i, c in enumerate((a, b)))
    steps, values = figures._grid(PointData("a", "a", None, {}, seeds), "x")

    assert steps.tolist() == [0, 10, 15, 20]
    assert values[0].tolist() == [1, 2, 2.5, 3]
    assert np.isnan(values[1, 3])


def test_of_sixty_points_four_are_coloured_and_the_rest_is_grey() -> None:
    image = picture(figures.curves([point(f"p{i}", 0.9 - i / 100, 2, 5) for i in range(60)], "val_acc", "exp-1"))

    assert all(has_colour(image, c) for c in (*canvas.COLOURS[:4], canvas.GREY))
    assert not has_colour(image, canvas.COLOURS[4])
    assert image.size[1] < 1500


def test_titles_in_chinese_with_emoji_and_dollars_have_no_missing_glyph() -> None:
    """A UserWarning about a missing glyph fails this test; U+1FAE0 is in no usual font."""
    title = "exp-1: 用ResNet50对比学习率 \U0001fae0 $x$ _{"

    assert figures.curves([point("_模型 $a$", 0.9)], "val_acc", title)
    assert figures.sweep([point(f"a lr {x}", x / 4, lr=x) for x in (1, 2, 3)], "val_acc", title)


def test_without_a_chinese_font_the_characters_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas, "_cjk_families", list)

    assert canvas.printable("exp-1: 用ResNet50") == ("exp-1: ResNet50", ["DejaVu Sans"])
    assert figures.curves([point("模型", 0.9)], "val_acc", "exp-1: 用ResNet50")


def test_long_names_keep_both_ends() -> None:
    name = "vit_base_patch16_224.augreg_in21k_ft_in1k"

    assert canvas.shorten(name, 20) == name[:10] + "…" + name[-9:]
    assert canvas.shorten("resnet50", 20) == "resnet50"
    assert figures.curves([point(name * 3, 0.9)], "val_acc", "exp-1: " + name * 9)


def test_a_sweep_is_drawn_from_three_values_on() -> None:
    points = [point(f"a lr {x:g}", 0.5 + i / 10, lr=x) for i, x in enumerate((1e-4, 1e-3, 1e-2))]

    assert picture(figures.sweep(points, "val_acc", "exp-1")).size[0] == 1080
    assert figures.sweep(points[:2], "val_acc", "exp-1") is None
    assert figures.sweep_axis(points) == "lr"


def test_threads_may_draw_at_the_same_time() -> None:
    """Reports of two experiments may be built in one process; pyplot's global state would mix them up."""
    results: list[bytes | None] = []
    points = [point("a", 0.9)]
    threads = [
        threading.Thread(target=lambda: results.append(figures.curves(points, "val_acc", "exp-1"))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 2
    assert results[0] == results[1]
