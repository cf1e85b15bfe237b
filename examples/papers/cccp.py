"""CCCP (Collobert et al., UniverSVM) against TSVM on the sets that SVMlin was run on.

python examples/papers/cccp.py --out results

The folder `reference` beside that of the data sets has npz files of sparse rows (`data`, `indices`,
`indptr`, `shape`), `y` in {-1, 1} and, for some numbers l, `lab_<l>`, 1 where a label may be used;
and SVMlin's figures in svmlin.json. lam 0.001, lam_unlabeled 1, the true ratio; both methods alone,
as their papers have them. F is TSVM's objective at the weights that were found, which is not what
CCCP minimizes.
"""

import json

import numpy as np
import scipy.sparse as sp
from common import command, timed
from tables import code

from dask_s3vm import CCCPS3VM, L2SVM, TSVM

SETS = (
    ("rcv1_ccat_sample", 50), ("usps_3_8", 30), ("usps_2_5", 30), ("news_comp_sci", 1000),
    ("news_comp_sci", 100), ("w8a", 1000), ("kdd99_10pc", 1000), ("kdd99_10pc", 100),
)  # fmt: skip
LAM = 1e-3


def objective(model, X, y, labeled):
    """F at the weights of a model, the bias inside w."""
    w, bias = np.asarray(model.coef_).ravel(), float(model.intercept_[0])
    outputs = X @ w + bias
    known = np.maximum(0.0, 1.0 - y[labeled] * outputs[labeled]) ** 2
    unknown = np.maximum(0.0, 1.0 - np.abs(outputs[~labeled])) ** 2
    return 0.5 * (LAM * (w @ w + bias**2) + known.mean() + unknown.mean())


def compare(name, n_labels, folder):
    """Return the cells of a row: {column: text}."""
    with np.load(folder / f"{name}.npz") as held:
        parts = held["data"].astype(float), held["indices"], held["indptr"]
        X, y = sp.csr_matrix(parts, shape=tuple(held["shape"])), held["y"]
        labeled = held[f"lab_{n_labels}"] > 0
    few = np.where(labeled, y, 0)
    more = {"positive_ratio": float((y[~labeled] > 0).mean()), "balance": "paper"}
    cells = {}
    for method, model in {
        "SVM": L2SVM(LAM, unlabeled=0),
        "TSVM": TSVM(LAM, 1.0, unlabeled=0, **more, supervised_part=0),
        "CCCP": CCCPS3VM(LAM, 1.0, unlabeled=0, **more, supervised_part=0),
    }.items():
        model, seconds = min((timed(model, X, few) for _ in range(2)), key=lambda one: one[1])
        error = 100 * float((np.asarray(model.predict(X)) != y)[~labeled].mean())
        cells[method] = f"{error:.2f} %"
        if method != "SVM":
            value = objective(model, X, y, labeled)
            cells[method] += f", F {value:.5f}, {seconds:.2g} s, {model.n_rounds_} rounds"
    known = json.loads((folder / "svmlin.json").read_text())[f"{name} l={n_labels} tsvm"]
    error, value = 100 * known["error_unlabeled"], known["objective"]
    return {"SVMlin's TSVM": f"{error:.2f} %, F {value:.5f}", **cells}


def table(args):
    """Write the table, one row after the other."""
    folder, sets = args.data.parent / "reference", SETS[:1] if args.quick else SETS
    if not (folder / "svmlin.json").exists():
        print(f"  not at hand: SVMlin's sets and figures (no {folder})")
        return
    lines = ["**CCCP against TSVM: error on unlabeled rows, objective F of TSVM, seconds, rounds**"]
    said = "lam 0.001, lam_unlabeled 1, true ratio; neither is mixed with the supervised SVM"
    lines += ["", f"- {said}; CPU seconds on one thread, the better of two fits", ""]
    for place, (name, n_labels) in enumerate(sets):
        cells = compare(name, n_labels, folder)
        if not place:
            lines += ["| set | " + " | ".join(cells) + " |", "|---" * (len(cells) + 1) + "|"]
        lines.append(f"| {name}, {n_labels} labels | " + " | ".join(cells.values()) + " |")
        print(lines[-1], flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        page = "\n".join([*lines, "", f"Computed by commit {code()}.", ""])
        (args.out / "cccp.md").write_text(page, encoding="utf-8")


PARTS = {"cccp": table}
main = command(PARTS, __doc__, "CCCP against TSVM")

if __name__ == "__main__":
    main()
