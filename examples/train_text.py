"""Semi-supervised training on text-like rows of the shape of full RCV1, 1000 of them labeled.

python examples/train_text.py                            # a local cluster
python examples/train_text.py --scheduler tcp://host:8786
python examples/train_text.py --rows 20000               # smaller
python examples/train_text.py --methods qn               # or l2svm, tsvm, da, qp, sqp, star
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compare import compare_methods, parse

from dask_s3vm.datasets import make_text

if __name__ == "__main__":
    args = parse(__doc__, rows=804_414)
    compare_methods(make_text(args.rows), args)
