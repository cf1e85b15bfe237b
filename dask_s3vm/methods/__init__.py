"""The algorithms: the outer loop of each paper, from rows in an engine to weights.

run             the loop that drives every method: history, progress, checkpoints, resuming
base            binary problems, their solutions, and seeds for paths of lam
l2svm           supervised SVM by modified finite Newton
tsvm, da, qn    S3VMs by switching of labels, deterministic annealing, and a quasi-Newton method
rlsc            regularized least squares in closed form
s2rlsc          least squares over weights and labels, by `restarts` or by `sharded_search`
clustering      least squares over labels alone: maximum margin clustering
qp, submodular  labels by a quadratic program or by greedy picks; `labeling` trains an SVM on them
star            self-training in stages
"""
