"""The algorithms: the outer loop of each paper, from rows in an engine to weights.

run             the loop that drives every method: history, progress, checkpoints, resuming
state_fields    states and results as plain fields, to be saved and read back
side_by_side    records of problems that are solved at the same time
base            binary problems, their solutions, and seeds for paths of lam
ratio           the share of each class among the unlabeled rows
l2svm, lapsvm   supervised SVM by modified finite Newton, and one that is smooth along a graph
tsvm, da, qn    S3VMs by switching of labels, deterministic annealing, and a quasi-Newton method
cccp            S3VM with the ramp loss, by the concave-convex procedure
rlsc            regularized least squares in closed form
s2rlsc          least squares over weights and labels, by `restarts` or by `sharded_search`
clustering      least squares over labels alone: maximum margin clustering
qp, submodular  labels by a quadratic program or by greedy picks; `labeling` trains an SVM on them
star            self-training in stages
blend           how much of a model is to be the supervised SVM
unseen          mistakes of the supervised SVM on rows that it has not seen
safe            whether unlabeled rows helped: folds of the labeled rows
projected       least squares that unlabeled rows cannot make worse
calibration     probabilities from outputs
"""
