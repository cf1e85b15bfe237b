"""KDD Cup 1999 from the raw csv files: attacks against normal connections.

python examples/kdd99.py kddcup.data.gz                         # the full set, 4,898,431 rows
python examples/kdd99.py kddcup.data_10_percent.gz corrected.gz # several files, read as one set
python examples/kdd99.py kddcup.data.gz --scheduler tcp://host:8786
python examples/kdd99.py kddcup.data.gz --paper yes             # the paper's 127 features
python examples/kdd99.py --rows 100000                          # no file: generated rows

1000 labels are drawn at random and all others are hidden; the error is measured on all rows.
Sindhwani and Keerthi (Table 1.5, full set): SVM 0.29 %, TSVM 0.48 %, DA 0.22 %. From a shell:
dask-s3vm train kddcup.data.gz --format kdd99 --hide-all-but 1000 --method tsvm
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compare import compare_methods, parse

from dask_s3vm.datasets import make_intrusion, read_kdd99


def read(args):
    """Return lazy rows and labels of all files."""
    binary = "indicators" if args.paper == "yes" else "numbers"
    X, y, _ = read_kdd99(args.files, binary=binary, block="scipy")
    return X[: args.rows], y[: args.rows]


if __name__ == "__main__":
    args = parse(
        __doc__,
        rows=4_898_431,
        files="raw files, also compressed",
        paper="yes: indicators of the four binary columns, 127 features in total",
    )
    compare_methods((lambda: read(args)) if args.files else make_intrusion(args.rows), args)
