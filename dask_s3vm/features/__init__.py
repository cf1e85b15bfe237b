"""Features computed from rows or tables; with kernel features, linear methods are kernel methods.

kernel_map      landmarks and a basis: inner products of features are (nearly) a kernel
landmarks       choice of landmark rows, and ranges of the columns, for X of any type
kernel_columns  the exact kernel, column by column, for rows in one process
unit_scaler     columns scaled to [0, 1]
table_encoder   tables of numbers, categories, dates and texts as sparse rows
table_columns   tables of many types as Arrow, and their columns as numbers and codes
table_facts     what pieces of a table say about its columns, put together
table_rows      columns to sparse rows
table_labels    label columns as classes
"""

from dask_s3vm._lazy import lazy_names
from dask_s3vm.features.kernel_map import (
    FeatureBlocks,
    KernelMap,
    check_kernel,
    fit_kernel_map,
    map_rows,
)
from dask_s3vm.features.unit_scaler import UnitScaler

#: Loaded when first used: they import Arrow, which no fit on arrays needs.
_OF_TABLES = {
    "TableEncoder": "dask_s3vm.features.table_encoder",
    "UnknownCategoryWarning": "dask_s3vm.features.table_encoder",
}

__all__ = [
    "FeatureBlocks",
    "KernelMap",
    "TableEncoder",
    "UnitScaler",
    "UnknownCategoryWarning",
    "check_kernel",
    "fit_kernel_map",
    "map_rows",
]

__getattr__, _ = lazy_names("dask_s3vm.features", _OF_TABLES)
