"""The baselines of the package, with the parameters of the papers."""

from dask_s3vm.baselines import baseline

ROUNDS = 10


def rival(name, *, C=1.0, lam=1.0, kernel="linear", gamma="scale", class_weight=None):
    """Make a baseline.

    C is for the SVM and self-training, lam for RLSC (of several, the one with the smallest
    leave-one-out error). Self-training stops after ten rounds: on text it would take hundreds of
    rounds that label a row or two each.
    """
    if name == "SVM":
        return baseline(name, C=C, kernel=kernel, gamma=gamma)
    if name == "RLSC":
        width = {} if kernel == "linear" else {"gamma": gamma, "n_components": None}
        return baseline(name, lam=lam, kernel=kernel, **width)
    if name == "self-training":
        model = baseline(name, C=C, kernel=kernel, gamma=gamma, class_weight=class_weight)
        return model.set_params(estimator__max_iter=ROUNDS)
    return baseline(name)
