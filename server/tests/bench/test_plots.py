"""Charts as PNG: they open, and each line is drawn in its colour where its figures are."""

from pathlib import Path

from PIL import Image
from windlass.bench.serving import files, plots
from windlass.bench.serving.plots import Plot

from .samples import record

BLUE, RED = (0x1F, 0x6F, 0xEB), (0xD1, 0x24, 0x2F)


def count(image, colour):  # type: ignore[no-untyped-def]
    """Pixels of a colour above the legend."""
    upper = image.crop((0, 0, image.width, plots.HEIGHT - 45))
    found = {shade: many for many, shade in upper.getcolors(upper.width * upper.height)}
    return found.get(colour, 0)


def test_lines(tmp_path: Path) -> None:
    """Two lines; where one has no figure it is broken, and a line without any is not drawn."""
    names = ["1", "10", "64"]
    whole = Plot("a.png", "Time to first token (ms)", names, {"median": [1.0, 2.0, 3.0], "p99": [None, None, None]})
    broken = Plot("b.png", "Time to first token (ms)", names, {"median": [1.0, None, 3.0]})
    plots.write(tmp_path, [whole, broken])
    with Image.open(tmp_path / "a.png") as first, Image.open(tmp_path / "b.png") as second:
        assert first.size == (plots.WIDTH, plots.HEIGHT + 2 * plots.LEGEND_ROW)
        assert count(first, BLUE) > 2 * count(second, BLUE) > 0
        assert count(first, RED) == 0


def test_a_benchmarks_folder_has_three(tmp_path: Path) -> None:
    """Beside the page."""
    files.write(tmp_path, [record(counted=None)])
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["itl.png", "throughput.png", "ttft.png"]
