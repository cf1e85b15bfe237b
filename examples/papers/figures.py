"""Curves of a paper's figure: always a csv, and a png where matplotlib is installed."""

import csv
from pathlib import Path

import numpy as np


class Figure:
    """Curves by panel: points (x, mean, standard deviation) that are on disk after every one."""

    def __init__(self, name, title, out, *, x, y, log=""):
        self.name, self.title, self.out = name, title, Path(out)
        self.x, self.y, self.log = x, y, log
        self.points = []
        self.settings = []
        print(f"\n{title}")

    def say(self, text):
        """Print a line about how the points were computed."""
        self.settings.append(text)
        print(f"  {text}", flush=True)

    def add(self, panel, curve, x, values):
        """Add a point of a curve: the values of several draws."""
        values = np.atleast_1d(np.asarray(values, dtype=float))
        self.points.append((panel, curve, float(x), float(values.mean()), float(values.std())))
        mean, sd = self.points[-1][3:]
        print(f"  {panel:24s} {curve:16s} {self.x} {x:8g}   {self.y} {mean:10.4g} ± {sd:.3g}",
              flush=True)  # fmt: skip
        self.write()

    def write(self):
        """Write the csv."""
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.out / f"{self.name}.csv", "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(("panel", "curve", self.x, f"{self.y} (mean)", f"{self.y} (sd)"))
            for panel, curve, x, mean, sd in self.points:
                writer.writerow((panel, curve, f"{x:g}", f"{mean:.6g}", f"{sd:.4g}"))

    def draw(self):
        """Draw the png, with one panel next to the other."""
        panels = list(dict.fromkeys(point[0] for point in self.points))
        plt = pyplot()
        if plt is None or not panels:
            return
        columns = 2 if len(panels) in (2, 4) else min(len(panels), 3)
        lines = -(-len(panels) // columns)
        figure, axes = plt.subplots(
            lines, columns, figsize=(3.6 * columns, 2.9 * lines), squeeze=False
        )
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        for axis, panel in zip(axes.flat, panels, strict=False):
            for curve in dict.fromkeys(p[1] for p in self.points if p[0] == panel):
                own = sorted(p[2:] for p in self.points if p[:2] == (panel, curve))
                x, mean, sd = np.array(own).T
                axis.errorbar(x, mean, sd, marker="o", markersize=3, capsize=2, label=curve)
            axis.set(title=panel, xlabel=self.x, ylabel=self.y)
            if "x" in self.log:
                axis.set_xscale("log")
            if "y" in self.log:
                axis.set_yscale("log")
            axis.legend(fontsize="small")
        save(figure, self.out / f"{self.name}.png")


def pyplot():
    """Return matplotlib.pyplot for files; None, with a printed line, if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("  no png: matplotlib is not installed (pip install dask-s3vm[plot])")
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure, path):
    """Write a small png and close the figure."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=72)
    plt.close(figure)
    print(f"  drawn: {path}")


def scatter(name, out, panels, *, columns=3):
    """Draw partitions of the plane: panels are (title, X, found labels 0/1, labeled rows)."""
    plt = pyplot()
    if plt is None:
        return
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.2 * columns, 2.7 * lines), squeeze=False)
    for axis, (title, X, found, known) in zip(axes.flat, panels, strict=False):
        for side, (color, shape) in enumerate((("tab:blue", "^"), ("tab:red", "s"))):
            rows = found == side
            axis.scatter(*X[rows].T, s=6, c=color, marker=shape, alpha=0.5, linewidths=0)
            rows = known[found[known] == side]
            axis.scatter(*X[rows].T, s=55, c=color, marker=shape, edgecolors="black")
        axis.set_title(title, fontsize="small")
        axis.set_xticks([])
        axis.set_yticks([])
    save(figure, Path(out) / f"{name}.png")
