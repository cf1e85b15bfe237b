"""The package's baselines with the papers' parameters: one C, one lam, one kernel for all."""

from dask_s3vm.baselines import baseline

ROUNDS = 10


def rival(name, *, C=1.0, lam=1.0, kernel="linear", gamma="scale", class_weight=None):
    """Make a baseline; C is the SVM's, lam RLSC's (several: the best leave-one-out error).

    Self-training stops after ten rounds: hundreds, a row or two each, take minutes on text.
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
