"""Run the scripts of all papers: python examples/papers --quick --out FOLDER."""

import cccp
import draws
import qn_s3vm
import qp_s3vm
import s2rlsc
import ssl_book
import star_svm
import svmlin

for script in (qn_s3vm, draws, s2rlsc, svmlin, cccp, qp_s3vm, star_svm, ssl_book):
    script.main()
    print(flush=True)
