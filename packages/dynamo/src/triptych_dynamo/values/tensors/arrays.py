"""numpy arrays in a traced program: tensors of the graph that are arrays to the program.

A function, method or operator of numpy becomes one node that calls torch's numpy-compatible layer. What numpy itself
gives for arrays of these shapes and types (shape, dtype, array or scalar, exception) is asked of numpy while tracing,
so results have numpy's types. Functions of constants alone are numpy's own results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import numpy, numpy_layer
from triptych_dynamo.errors import TracedException
from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.runtime_arrays import ArrayFunction, assign_item, assign_whole, returned_array, returned_scalar
from triptych_dynamo.sources import ComputedSource, Source
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.callables.builtin_functions import builtin, handler_of, wrap_substituted
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import none, origin_of
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.sequences import SequenceValue
from triptych_dynamo.values.objects.classes import StaticObjectValue, constructs
from triptych_dynamo.values.registry import wraps, wraps_if, wraps_object
from triptych_dynamo.values.tensors.tensor import METHODS, TensorValue
from triptych_dynamo.values.tensors.torch_functions import TorchFunctionValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

LARGEST = 1 << 20  # elements of an array that numpy is asked about, or that is kept as a constant
_FACTS = frozenset({"ndim", "size", "itemsize", "nbytes", "strides"})
_VIEWS = frozenset({"T", "real", "imag"})
_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift lt le gt ge eq ne divmod".split()
_OPERATORS = frozenset(
    {f"__{name}__" for name in (*_BINARY, "neg", "pos", "abs", "invert", "getitem")}
    | {f"__r{name}__" for name in _BINARY[:13]}
)
_INPLACE = {f"__i{name}__": f"__{name}__" for name in _BINARY[:13]}
# Methods whose result numbers only the run knows, or that leave numpy.
_LEAVES = frozenset("item tolist tofile tobytes dump dumps save view __array__ __float__ __int__ __index__".split())
# Of these, what gives the number of an array without dimensions as it gives that of a tensor.
_NUMBERS = frozenset("item __float__ __int__ __index__".split())


class ArrayValue(Value):
    """An array (or, with `is_scalar`, a numpy scalar) that a tensor of the graph holds.

    `array` is an array of numpy of the same facts, for questions about types.
    """

    def __init__(self, tensor: TensorValue, is_scalar: bool = False, source: Source | None = None) -> None:
        super().__init__(source)
        self.tensor, self.is_scalar = tensor, is_scalar

    @property
    def dtype(self) -> Any:
        """numpy's dtype."""
        return numpy.dtype(str(self.tensor.fake.dtype).removeprefix("torch."))

    def python_type(self) -> type:
        return self.dtype.type if self.is_scalar else numpy.ndarray  # type: ignore[no-any-return]

    def key(self, tx: Frame) -> Any:
        return self

    def as_graph_arg(self, tx: Frame) -> Any:
        return self.tensor.node

    def truth(self, tx: Frame) -> bool:
        return tx.unsupported("truth", "a branch on the value of an array")

    def get_attr(self, tx: Frame, name: str) -> Value:
        fake = self.tensor.fake
        if name == "shape":
            return tx.trace.make_tuple([self.tensor.size(tx, dim) for dim in range(fake.ndim)])
        if name == "dtype":
            return tx.wrap(self.dtype, None)
        if name in _FACTS:
            facts = {"ndim": fake.ndim, "size": fake.numel(), "itemsize": fake.element_size(), "nbytes": fake.nbytes}
            strides = tuple(stride * fake.element_size() for stride in fake.stride())
            return tx.constant(strides if name == "strides" else facts[name])
        if name in _VIEWS:
            return call_numpy(tx, f".{name}", [self], {})
        if name == "__class__":
            return tx.wrap(self.python_type(), None)
        if not hasattr(self.python_type(), name):
            text = f"'{type_text(self)}' object has no attribute '{name}'"
            return tx.raise_python(AttributeError, text)
        return BuiltinMethodValue(self, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__len__" and self.tensor.fake.ndim:
            return self.tensor.size(tx, 0)
        if name in _NUMBERS and self.tensor.fake.ndim == 0 and not args and not kwargs:
            number = METHODS[name](self.tensor, tx, [], {})
            assert number is not None
            return number
        if name in _LEAVES:
            return tx.unsupported("data-dependent", f"{name}() of an array")
        if name == "__setitem__":
            return self._assign(tx, args[0], args[1])
        if name in _INPLACE and not self.is_scalar:
            return self._in_place(tx, _INPLACE[name], args[0])
        if name in _INPLACE:
            return tx.constant(NotImplemented)
        if name.startswith("__") and name not in _OPERATORS:
            return tx.unsupported("numpy", f"{name} of an array")
        if name in ("sort", "fill", "resize", "partition", "put", "itemset", "setflags"):
            return tx.unsupported("numpy", f"{name}() of an array")
        return call_numpy(tx, f".{name}", [self, *args], kwargs)

    def _assign(self, tx: Frame, key: Value, item: Value) -> Value:
        for value in (key, item):
            _check_argument(tx, "__setitem__", value)
        tx.call_graph(assign_item, [self.tensor, _plain(tx, key), _plain(tx, item)])
        return none(tx)

    def _in_place(self, tx: Frame, name: str, other: Value) -> Value:
        result = call_numpy(tx, f".{name}", [self, other], {})
        if not isinstance(result, ArrayValue) or not numpy.can_cast(result.dtype, self.dtype, "same_kind"):
            return tx.unsupported("numpy", "an operator in place whose result has another kind of type")
        tx.call_graph(assign_whole, [self.tensor, result.tensor])
        return self

    def iterate(self, tx: Frame) -> Iterator[Value]:
        count = self.tensor.fake.shape[0] if self.tensor.fake.ndim else 0
        return iter([call_numpy(tx, ".__getitem__", [self, tx.constant(row)], {}) for row in range(count)])

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(returned_scalar if self.is_scalar else returned_array)
        cg.load(self.tensor)
        cg.call(1)


def type_text(value: ArrayValue) -> str:
    """The type as error texts name it."""
    cls = value.python_type()
    return f"{cls.__module__}.{cls.__name__}"


class NumpyScalarValue(StaticObjectValue):
    """A number of numpy that is known: arithmetic with other known numbers is numpy's own."""

    graph_number = True  # beside a tensor it is the plain number

    def as_graph_arg(self, tx: Frame) -> Any:
        return self.obj.item()

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if any(isinstance(arg, ArrayValue) for arg in args):
            return call_numpy(tx, f".{name}", [self, *args], kwargs)
        if any(isinstance(arg, (TensorValue, SymbolicValue)) for arg in args) and name.startswith("__"):
            return tx.constant(NotImplemented)
        return super().call_method(tx, name, args, kwargs)


# -- calls -------------------------------------------------------------------------------------------------------------
def _plain(tx: Frame, value: Value) -> Any:
    """A value as an argument of a node: arrays are their tensors, scalars of numpy plain numbers."""
    if isinstance(value, ArrayValue):
        return value.tensor
    if isinstance(value, (TensorValue, SymbolicValue)):
        return value
    if isinstance(value, SequenceValue):
        items = [_plain(tx, item) for item in value.items]
        return tuple(items) if issubclass(value.python_type(), tuple) else items
    if isinstance(value, DictValue):
        return {entry.key.as_constant(): _plain(tx, entry.value) for entry in value.all_entries(tx)}
    parts = getattr(value, "parts", None)
    if value.python_type() is slice and parts is not None:
        return slice(*(_plain(tx, part) for part in parts))
    if isinstance(value, NumpyScalarValue):
        dtype = _torch_dtype(tx, value.obj)
        return tx.call_graph(torch.scalar_tensor, [value.obj.item()], {"dtype": dtype})
    if value.is_buffer:
        return tx.unsupported("numpy", f"{value!r}, whose memory an array may share")
    try:
        return _torch_constant(value.as_constant())
    except NotConstant:
        return tx.unsupported("numpy", f"{value!r} as an argument of a function of numpy")


def _torch_constant(obj: Any) -> Any:
    if isinstance(obj, numpy.generic):
        return obj.item()
    if isinstance(obj, numpy.dtype) or (isinstance(obj, type) and issubclass(obj, numpy.generic)):
        return numpy.dtype(obj).name
    if isinstance(obj, (tuple, list)):
        return type(obj)(_torch_constant(item) for item in obj)
    return obj


def _sample(tx: Frame, value: Value) -> Any:
    """A value as an argument of numpy itself: arrays of some numbers, everything else as it is."""
    if isinstance(value, ArrayValue):
        shape = tuple(value.tensor.fake.shape)
        if not all(isinstance(size, int) for size in shape) or value.tensor.fake.numel() > LARGEST:
            tx.unsupported("numpy", "an array of a size that is not known, or too large to ask numpy about")
        numbers = numpy.random.default_rng(0).random(shape) + 0.5
        return numbers.astype(value.dtype)[()] if value.is_scalar else numpy.asarray(numbers.astype(value.dtype))
    if isinstance(value, SequenceValue):
        items = [_sample(tx, item) for item in value.items]
        return tuple(items) if issubclass(value.python_type(), tuple) else items
    parts = getattr(value, "parts", None)
    if value.python_type() is slice and parts is not None:
        return slice(*(_sample(tx, part) for part in parts))
    if isinstance(value, (TensorValue, SymbolicValue)):
        return tx.unsupported("numpy", "a tensor or a symbolic number as an argument of a function of numpy")
    if value.is_buffer:
        return tx.unsupported("numpy", f"{value!r}, whose memory an array may share")
    return value.as_constant()


def _check_argument(tx: Frame, name: str, value: Value) -> None:
    try:
        _sample(tx, value)
    except NotConstant:
        tx.unsupported("numpy", f"{value!r} as an argument of {name}")


def _real_function(path: str) -> Callable[..., Any]:
    if path.startswith("."):
        name = path[1:]
        if name in _VIEWS:
            return operator.attrgetter(name)
        return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)
    return operator.attrgetter(path)(numpy)  # type: ignore[no-any-return]


def call_numpy(tx: Frame, path: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of a function (`linalg.norm`) or method (`.sum`) of numpy."""
    try:
        samples = [_sample(tx, arg) for arg in args]
        named = {key: _sample(tx, arg) for key, arg in kwargs.items()}
    except NotConstant:
        return tx.unsupported("numpy", f"an argument of numpy.{path.lstrip('.')} that is not known while tracing")
    try:
        with numpy.errstate(all="ignore"):
            expected = _real_function(path)(*samples, **named)
    except numpy.linalg.LinAlgError:
        return tx.unsupported("numpy", f"numpy.{path.lstrip('.')} of a matrix without inverse")
    except Exception as error:
        return tx.raise_python(type(error), *error.args)
    if not any(_holds_array(arg) for arg in (*args, *kwargs.values())):
        return constant_result(tx, expected)
    if expected is NotImplemented:
        return tx.constant(NotImplemented)
    if path.startswith(".") and path[1:] in _VIEWS:
        result = tx.call_graph(getattr, [args[0].tensor, path[1:]])  # type: ignore[attr-defined]
        return ArrayValue(result) if isinstance(result, TensorValue) else result
    if not path.startswith(".") and not _in_layer(path):
        return tx.unsupported("numpy", f"numpy.{path} of an array")
    leaves = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    dtypes = tuple(_torch_dtype(tx, leaf) for leaf in leaves)
    function = ArrayFunction(path, dtypes)
    plain = [_plain(tx, arg) for arg in args]
    try:
        result = tx.call_graph(function, plain, {key: _plain(tx, arg) for key, arg in kwargs.items()})
    except NotImplementedError as error:
        return tx.unsupported("numpy", str(error))
    except TracedException:  # numpy itself does not raise
        return tx.unsupported("numpy", f"numpy.{path.lstrip('.')} of these arguments")
    return as_numpy(tx, result, expected)


def _holds_array(value: Value) -> bool:
    if isinstance(value, SequenceValue):
        return any(_holds_array(item) for item in value.items)
    parts = getattr(value, "parts", None)
    if value.python_type() is slice and parts is not None:
        return any(_holds_array(part) for part in parts)
    return isinstance(value, ArrayValue)


def _torch_dtype(tx: Frame, leaf: Any) -> torch.dtype | None:
    if not isinstance(leaf, (numpy.ndarray, numpy.generic)):
        return None
    found = getattr(torch, numpy.dtype("bool" if leaf.dtype == bool else leaf.dtype).name, None)
    if not isinstance(found, torch.dtype):
        tx.unsupported("numpy", f"an array of dtype {leaf.dtype}")
    return found


def as_numpy(tx: Frame, result: Value, expected: Any) -> Value:
    """A node's result as numpy gives it: arrays and scalars in place of tensors."""
    if isinstance(result, SequenceValue):
        if not isinstance(expected, (tuple, list)) or len(expected) != len(result.items):
            return tx.unsupported("numpy", "a result of another form than numpy's")
        items = [as_numpy(tx, item, leaf) for item, leaf in zip(result.items, expected, strict=True)]
        return tx.trace.make_sequence(list if isinstance(expected, list) else tuple, items)
    if not isinstance(result, TensorValue):
        return result
    if not all(isinstance(size, int) for size in result.fake.shape):
        return tx.unsupported("data-dependent", "an array whose size depends on numbers of an array")
    if tuple(result.fake.shape) != numpy.shape(expected):
        return tx.unsupported("numpy", f"a result of shape {tuple(result.fake.shape)} where numpy gives another")
    return ArrayValue(result, is_scalar=isinstance(expected, numpy.generic))


def constant_result(tx: Frame, found: Any) -> Value:
    """What numpy gave for constants: an array is made anew in each run."""
    if isinstance(found, numpy.ndarray):
        if found.dtype == object or found.size > LARGEST or found.dtype.kind not in "biufc":
            return tx.unsupported("numpy", f"an array of dtype {found.dtype}, or a large constant")
        kept = torch.from_numpy(numpy.ascontiguousarray(found).reshape(found.shape))
        copied = tx.call_graph("clone", [tx.trace.inputs.tensor(tx, kept, None)])
        assert isinstance(copied, TensorValue)
        return ArrayValue(copied)
    if isinstance(found, (tuple, list)):
        return tx.trace.make_sequence(type(found), [constant_result(tx, item) for item in found])
    return tx.constant(found)


def _in_layer(path: str) -> bool:
    """Whether torch's layer has the function."""
    found: Any = numpy_layer
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is not None


# Functions of numpy that are no functions of arrays: they read or write files, call back, or set state.
_NOT_ARRAYS = frozenset(
    "save savez savez_compressed savetxt load loadtxt genfromtxt fromfile fromfunction frombuffer fromregex "
    "apply_along_axis apply_over_axes frompyfunc piecewise seterr seterrcall geterr geterrcall setbufsize getbufsize "
    "set_printoptions get_printoptions printoptions info show_config show_runtime test asmatrix bmat".split()
)


def _numpy_functions() -> list[tuple[str, Any]]:
    """Functions of numpy by path."""
    found = []
    for prefix in ("", "linalg.", "fft."):
        space = operator.attrgetter(prefix[:-1])(numpy) if prefix else numpy
        for name in dir(space):
            function = None if name.startswith("_") or name in _NOT_ARRAYS else getattr(space, name)
            if callable(function) and not isinstance(function, type) and handler_of(function) is None:
                found.append((prefix + name, function))
    return found


def _function(path: str, function: Any) -> None:
    def call(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return call_numpy(tx, path, list(args), kwargs)

    builtin(function)(call)
    wraps_object(function)(wrap_substituted)


# -- from and to torch -------------------------------------------------------------------------------------------------
def _to_numpy(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`tensor.numpy()`: an array that shares the tensor's memory."""
    fake = tensor.fake
    tx.trace.autograd_read = True
    if fake.requires_grad and not args and not kwargs:
        text = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        tx.raise_python(RuntimeError, text)
    if fake.device.type != "cpu" or fake.is_conj() or fake.dtype in (torch.bfloat16, torch.float16) or args or kwargs:
        return tx.unsupported("numpy", f"numpy() of a {fake.dtype} tensor on {fake.device}")
    shared = tx.call_graph("detach", [tensor])
    assert isinstance(shared, TensorValue)
    return ArrayValue(shared)


def _from_array(tx: Frame, value: Value, *args: Value, **kwargs: Value) -> Value | None:
    if isinstance(value, ArrayValue):
        return tx.call_graph("detach", [value.tensor])
    return None


def _from_numpy(tx: Frame, array: Value) -> Value:
    """`torch.from_numpy(array)`: a tensor that shares the array's memory."""
    found = _from_array(tx, array)
    return tx.unsupported("numpy", "torch.from_numpy of what is no array") if found is None else found


def _taking_arrays(function: Any) -> None:
    """`torch.as_tensor(array)` and its like; of anything else they are ordinary functions of torch."""

    def call(tx: Frame, data: Value, *args: Value, **kwargs: Value) -> Value:
        if not isinstance(data, ArrayValue):
            return TorchFunctionValue(function).call(tx, [data, *args], kwargs)
        if args or set(kwargs) - {"dtype", "device"}:
            return tx.unsupported("numpy", f"torch.{function.__name__} of an array with {', '.join(kwargs)}")
        shared = tx.call_graph("clone" if function is torch.tensor else "detach", [data.tensor])
        return tx.call_graph("to", [shared], kwargs) if kwargs else shared

    builtin(function)(call)
    wraps_object(function)(wrap_substituted)


def _facts_of(array: Any) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.strides


if numpy is not None:
    METHODS["numpy"] = _to_numpy
    builtin(torch.from_numpy)(_from_numpy)
    wraps_object(torch.from_numpy)(wrap_substituted)
    for _maker in (torch.as_tensor, torch.tensor, torch.asarray):
        _taking_arrays(_maker)
    for _path, _numpy_function in _numpy_functions():
        _function(_path, _numpy_function)

    @wraps_if(lambda obj: isinstance(obj, numpy.generic), order=8)
    def wrap_scalar(tx: Frame, obj: Any, source: Source | None) -> Value:
        """A number of numpy."""
        tx.guard("equals", source, obj)
        return NumpyScalarValue(obj, source)

    @constructs(numpy.vectorize)
    def _vectorize(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.unsupported("numpy", "numpy.vectorize")

    @wraps(numpy.ndarray)
    def wrap_array(tx: Frame, obj: Any, source: Source | None) -> Value:
        """An array of the program: a tensor over its memory is an input of the graph."""
        source = origin_of(obj, source)
        known = obj.dtype.kind in "biufc" and obj.flags.writeable and all(s >= 0 for s in obj.strides)
        if not known or not isinstance(getattr(torch, obj.dtype.name, None), torch.dtype):
            return tx.unsupported("numpy", f"an array of dtype {obj.dtype} that torch cannot share")
        facts = (obj.dtype, obj.shape, obj.strides)
        tx.guard("type_is", source, numpy.ndarray)
        tx.guard("python", source, PythonFact(lambda a: _facts_of(a) == facts, f"{source} is an array of {facts}"))
        shared = tx.trace.inputs.shared(tx, torch.from_numpy(obj), ComputedSource(torch.from_numpy, (source,)))
        return ArrayValue(shared, source=source)
