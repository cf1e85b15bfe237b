"""Fitted models in the format of ONNX, written as operators on doubles.

ONNX has linear and kernel classifiers of its own, which skl2onnx would choose. Their weights are of
32 bits, so that rows near the boundary would change sides.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.estimators._export import slopes_and_levels
from dask_s3vm.features import KernelMap

#: Versions of the operators and of the format: those of 2022, for runtimes that are not new.
OPERATORS, FORMAT = 17, 8

#: Kernels that need no more than inner products.
KERNELS = ("poly", "polynomial", "rbf", "sigmoid")


class Graph:
    """Operators, each with one result, and the arrays that they need."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []

    def add(self, operator: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """Add an operator on named results and on arrays; return the name of its result."""
        from onnx.helper import make_node

        names = [given if isinstance(given, str) else self._held(given) for given in inputs]
        name = name or f"result {len(self.nodes)}"
        self.nodes.append(make_node(operator, names, [name], **attributes))
        return name

    def _held(self, values: Any) -> str:
        from onnx.numpy_helper import from_array

        name = f"array {len(self.arrays)}"
        self.arrays.append(from_array(np.ascontiguousarray(values), name))
        return name


def as_onnx(model: Any, probabilities: bool) -> Any:
    """Return the model, or that of its probabilities, as a `ModelProto` of ONNX."""
    try:
        from onnx import checker, helper
        from onnx.helper import make_tensor_value_info, np_dtype_to_tensor_dtype
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'dask-s3vm[onnx]'") from error
    slopes, levels = slopes_and_levels(model, probabilities)
    graph, rows, weights = Graph(), "X", model.coef_.T
    if model.kernel_map_ is not None:
        rows = _kernel(graph, model.kernel_map_)
        weights = model.kernel_map_.basis @ weights
    outputs = graph.add("MatMul", rows, weights * slopes)
    outputs = graph.add("Add", outputs, slopes * model.intercept_ + levels)
    if len(model.coef_) == 1:
        outputs = graph.add("Concat", graph.add("Neg", outputs), outputs, axis=1)
    labels = _plain(model.classes_)
    graph.add("Gather", labels, graph.add("ArgMax", outputs, axis=1, keepdims=0), name="label")
    if probabilities:
        graph.add("Softmax", _log_sigmoid(graph, outputs), axis=1, name="probabilities")
    else:
        graph.add("Identity", outputs, name="probabilities")

    double = np_dtype_to_tensor_dtype(np.dtype(np.float64))
    shape = (None, max(2, len(model.coef_)))
    made = helper.make_graph(
        graph.nodes,
        type(model).__name__,
        [make_tensor_value_info("X", double, (None, model.n_features_in_))],
        [
            make_tensor_value_info("label", np_dtype_to_tensor_dtype(labels.dtype), (None,)),
            make_tensor_value_info("probabilities", double, shape),
        ],
        graph.arrays,
    )
    versions = [helper.make_opsetid("", OPERATORS)]
    found = helper.make_model(
        made, opset_imports=versions, ir_version=FORMAT, producer_name="dask-s3vm"
    )
    checker.check_model(found)
    return found


def _log_sigmoid(graph: Graph, z: str) -> str:
    """Add min(z, 0) - log(1 + exp(-|z|)): finite, where sigmoids of all classes round to 0."""
    powers = graph.add("Exp", graph.add("Neg", graph.add("Abs", z)))
    logs = graph.add("Log", graph.add("Add", powers, np.float64(1.0)))
    return graph.add("Sub", graph.add("Min", z, np.float64(0.0)), logs)


def _plain(classes: np.ndarray) -> np.ndarray:
    """Classes in a type that ONNX has, and runtimes can look up."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind in "bf" else classes.astype(str).astype(object)


def _kernel(graph: Graph, kernel_map: KernelMap) -> str:
    """Add the kernel between the rows and the landmarks; see `sklearn.metrics.pairwise`."""
    kernel, landmarks = kernel_map.kernel, kernel_map.landmarks
    if kernel not in KERNELS:
        raise ValueError(
            f"to_onnx is for kernels linear, {', '.join(KERNELS)}; got {kernel!r}: use to_sklearn"
        )
    landmarks = landmarks.toarray() if sp.issparse(landmarks) else landmarks
    landmarks = np.asarray(landmarks, dtype=np.float64)
    gamma, rows = np.float64(kernel_map.params["gamma"]), "X"
    if kernel_map.scale is not None:
        rows = graph.add("Sub", rows, kernel_map.scale.offset)
        rows = graph.add("Mul", rows, kernel_map.scale.scale)
    if kernel == "rbf":
        origin = landmarks.mean(axis=0)  # where distances by inner products are accurate
        rows, landmarks = graph.add("Sub", rows, origin), landmarks - origin
        squares = graph.add("ReduceSumSquare", rows, axes=[1], keepdims=1)
        squares = graph.add("Add", squares, (landmarks**2).sum(axis=1))
        distances = graph.add("Add", squares, graph.add("MatMul", rows, -2.0 * landmarks.T))
        distances = graph.add("Max", distances, np.float64(0.0))
        return graph.add("Exp", graph.add("Mul", distances, -gamma))
    coef0 = np.float64(kernel_map.params["coef0"])
    products = graph.add("Add", graph.add("MatMul", rows, gamma * landmarks.T), coef0)
    if kernel == "sigmoid":
        return graph.add("Tanh", products)
    return graph.add("Pow", products, np.float64(kernel_map.params["degree"]))
