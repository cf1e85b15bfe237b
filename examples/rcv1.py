"""RCV1, all 804,414 documents: a topic against the rest, with few labels.

python examples/rcv1.py lyrl2004_vectors_*.dat.gz --topics rcv1-v2.topics.qrels.gz --topic gcat
python examples/rcv1.py --fetch yes --topic ccat    # scikit-learn downloads and stores it
python examples/rcv1.py --rows 20000                # no file: generated rows of the same shape

1000 labels (--labels) are drawn at random and all others are hidden; the error is measured on all
rows. Sindhwani and Keerthi (Table 1.4) report with 1000 labels: full-ccat SVM 12.31 %, TSVM
11.30 %, DA 11.36 %; full-gcat SVM 7.18 %, TSVM 5.52 %, DA 5.58 %.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compare import compare_methods, parse

from dask_s3vm.datasets import fetch_rcv1, make_text, read_rcv1


def read(args):
    """Return the rows, and whether they are of the topic."""
    topic = args.topic or "ccat"
    if args.fetch == "yes":
        X, y = fetch_rcv1(topic, block="scipy")
    else:
        X, y = read_rcv1(args.files, topics=args.topics, topic=topic, block="scipy")
    return X[: args.rows], y[: args.rows]


if __name__ == "__main__":
    args = parse(
        __doc__,
        rows=804_414,
        files="LYRL2004 vector files, also compressed",
        topics="file of topics, rcv1-v2.topics.qrels",
        topic="topic that is the positive class [default: ccat]",
        fetch="yes: through scikit-learn's fetcher",
    )
    if args.files and not args.topics:
        sys.exit("--topics is missing: the file of the topics of each document")
    given = args.files or args.fetch == "yes"
    compare_methods((lambda: read(args)) if given else make_text(args.rows), args)
