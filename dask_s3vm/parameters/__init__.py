"""Parameters of the estimators and facts of the methods, each written once.

fields   how a parameter is declared: default, constraint, description
shared   parameters that several estimators have
facts    what a method is: name, history columns, outer iteration; the register of methods
svm, least_squares, labeling   parameters and facts of each method, by family; in the last,
         `lam_to_C` and `C_to_lam`
methods  all of them

Nothing here imports scikit-learn, numba or dask, so that the command line shows its help at once.
"""
