"""Features computed from rows or tables; with kernel features, linear methods are kernel methods.

kernel_map      landmarks and a basis: inner products of features are (nearly) a kernel
landmarks       choice of landmark rows, and ranges of the columns, for X of any type
kernel_columns  the exact kernel, column by column, for rows in one process
unit_scaler     columns scaled to [0, 1]
table_encoder   tables of numbers and categories as sparse rows, label columns as classes
table_columns   columns of tables of many types, their moments, and their assembly to rows
"""

from dask_s3vm.features.kernel_map import (
    FeatureBlocks,
    KernelMap,
    check_kernel,
    fit_kernel_map,
    map_rows,
)
from dask_s3vm.features.table_encoder import TableEncoder, UnknownCategoryWarning
from dask_s3vm.features.unit_scaler import UnitScaler

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
