"""Features made of rows: with them every linear method learns non-linear functions.

kernel_map  landmarks and a basis, so that inner products of features are (nearly) a kernel
landmarks   which rows are landmarks, and the ranges of the columns, from X of any type
block_map   the map as the engine sees it
columns     the exact kernel, column by column, where all rows are in one process
unit_scaler columns to [0, 1]
table_encoder   tables of numbers and categories to sparse rows; frames, column_facts, assembly and
            table_labels are its parts
blas        products that come out the same whatever the number of threads
"""

from dask_s3vm.features.block_map import FeatureBlocks
from dask_s3vm.features.kernel_map import KernelMap, check_kernel, fit_kernel_map, map_rows
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
