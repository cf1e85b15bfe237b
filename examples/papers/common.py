"""Common parts of the scripts: options, running parts, splits in parallel, quiet fits."""

import argparse
import json
import os
import platform
import re
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import dask
import joblib
from datasets import load, missing
from tables import LEFT_OUT, code

ROOT = Path(__file__).resolve().parents[2]


def options(description, parts, arguments=None):
    """Parse the command line; `parts` are names of tables and figures such as "table 2"."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one or two splits of the small sets")
    parser.add_argument(
        "--whole-grid",
        action="store_true",
        help="the grid of the paper; takes an hour or so a table",
    )
    parser.add_argument("--splits", type=int, help="random splits per row [default: as printed]")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="processes for the splits of a row; 0: tabulate kept splits, run none [default: 1]",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("papers-results"),
        help="folder of the results [default: papers-results]",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="PART", help=f"run only some of: {', '.join(parts)}"
    )
    parser.add_argument("--sets", nargs="+", help="run only the rows of these sets")
    parser.add_argument(
        "--data",
        type=Path,
        default=data_folder(),
        help="folder of the data sets [default: DASK_S3VM_DATA]",
    )
    args = parser.parse_args(arguments)
    unknown = [part for part in args.only or [] if not any(fits(part, name) for name in parts)]
    if unknown:
        parser.error(f"--only: no {', '.join(unknown)} here; there are {', '.join(parts)}")
    return args


def data_folder():
    """Return the folder of the data sets."""
    return Path(os.environ.get("DASK_S3VM_DATA", ROOT.parent / "shared" / "data"))


def fits(word, name):
    """Whether a word of the command line means a part: "2" and "table 2" mean "table 2"."""
    name = name.lower()
    return word.lower() in (name, name.split(" ", 1)[-1], name.replace(" ", ""))


def command(parts, description, title):
    """Return what runs the chosen tables and figures of a paper, one after the other."""

    def main(arguments=None):
        args = options(description, parts, arguments)
        print(f"{title}\n{machine()}{'; --quick' if args.quick else ''}", flush=True)
        calm()
        for name, part in parts.items():
            if args.only and not any(fits(word, name) for word in args.only):
                continue
            began = time.perf_counter()
            part(args)
            print(f"  [{name}: {time.perf_counter() - began:.1f} s]", flush=True)

    return main


def machine():
    """Describe the date and the machine of a run."""
    cores = os.cpu_count()
    return f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {cores} cores, one thread a fit"


def calm():
    """Use one thread per fit, and suppress the expected warnings about few labels."""
    warnings.simplefilter("ignore")
    dask.config.set(scheduler="synchronous")


def excuse(row, name, args, quick_sets):
    """Return why a row is not run (set not at hand, --quick, --sets), or None."""
    why = missing(name, args.data)
    if why is None and args.quick and row not in quick_sets:
        why = "not run (--quick)"
    if why is None and args.sets and not any(word.lower() in row.lower() for word in args.sets):
        why = LEFT_OUT
    return why


def rows_at_hand(table, args, full_name, quick_sets):
    """Yield key, rows and labels of each row of the paper that can be run; the others are missed.

    MNIST is its first 1,000 images of two digits, as in both papers that have it.
    """
    for key in table.paper:
        name = full_name(key[0])
        why = excuse(key[0], name, args, quick_sets)
        if why:
            table.miss(key, why)
            continue
        X, y = load(name, args.data)
        few = slice(1000 if name.startswith("MNIST") else None)
        yield key, X[few], y[few]


def sets_at_hand(figure, names, args):
    """Yield name, rows and labels of the sets that are at hand; the figure names the others."""
    for name in names:
        why = missing(name, args.data)
        if why:
            figure.say(why)
        else:
            yield name, *load(name, args.data)


def splits_of(args, full=10, quick=1):
    """Return the number of splits."""
    return args.splits or (quick if args.quick else full)


def over_splits(one, seeds, jobs, *rest, kept=None):
    """Return one(seed, *rest) for each seed, computed in `jobs` processes.

    kept : file of the results that an earlier run has left; they are not computed again. With one
        process it is written after every split, so that a run can be stopped and resumed. With
        zero processes nothing is computed: the results are those that are known.
    """
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    if jobs == 0:
        return [known[str(seed)] for seed in seeds if str(seed) in known]
    left = [seed for seed in seeds if str(seed) not in known]
    if jobs <= 1 or len(left) == 1:
        for seed in left:
            known[str(seed)] = one(seed, *rest)
            keep(kept, known)
    else:
        tasks = (joblib.delayed(calmly)(one, seed, *rest) for seed in left)
        known |= zip(map(str, left), joblib.Parallel(n_jobs=jobs)(tasks), strict=True)
        keep(kept, known)
    return [known[str(seed)] for seed in seeds]


def keep(path, known):
    """Write the results of splits to a file, in one move."""
    if path is None:
        return
    known.setdefault("code", code())
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(known))
    draft.replace(path)


def kept_in(args, *words):
    """Return the file of the results of splits of a row, by its name and the settings."""
    settings = ("quick" * args.quick, "grid" * args.whole_grid)
    name = " ".join(str(word) for word in (*words, *settings) if word != "")
    return args.out / "splits" / f"{re.sub(r'[^0-9A-Za-z.-]+', '_', name).strip('_')}.json"


def calmly(one, *rest):
    """Call a function in a new process, without warnings."""
    calm()
    return one(*rest)


def timed(model, X, y):
    """Fit a model; returns it and the CPU seconds, which do not depend on what else runs."""
    began = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - began
