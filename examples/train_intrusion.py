"""Semi-supervised training on rows of the shape of full kdd99, 1000 of them labeled.

python examples/train_intrusion.py                            # a local cluster
python examples/train_intrusion.py --scheduler tcp://host:8786
python examples/train_intrusion.py --rows 100000              # smaller
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compare import compare_methods, parse

from dask_s3vm.datasets import make_intrusion

if __name__ == "__main__":
    args = parse(__doc__, rows=4_898_431)
    compare_methods(make_intrusion(args.rows), args)
