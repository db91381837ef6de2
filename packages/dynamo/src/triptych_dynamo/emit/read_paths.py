"""Sources to code: a row for each kind of read step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from triptych_dynamo import sources as s
from triptych_dynamo.bytecode import build

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer

# Containers whose own item reads run no user code; a subclass that overrides `__getitem__` is read through these.
_PLAIN_READS: tuple[tuple[type, Callable[..., Any]], ...] = (
    (dict, dict.__getitem__),
    (list, list.__getitem__),
    (tuple, tuple.__getitem__),
)


def read_path(cg: Writer, source: s.Source) -> None:
    """Emit code that pushes what `source` reads."""
    _ROWS[type(source)](cg, source)


def _local(cg: Writer, source: Any) -> None:
    cg.emit(build.load_deref(source.name) if source.name in cg.cells else build.load_set_fast(source.name))


def _cell(cg: Writer, source: Any) -> None:
    cg.emit(build.load_cell(source.name))


def _pinned(cg: Writer, source: Any) -> None:
    cg.load_object(source.value)


def _global(cg: Writer, source: Any) -> None:
    if source.base.label == "G":
        cg.emit(build.load_global(source.name))
    else:
        cg.load_object(source.base.value)
        cg.load_const(source.name)
        cg.subscr()


def _attribute(cg: Writer, source: Any) -> None:
    cg.load_source(source.base)
    cg.load_attr(source.name)


def _instance_dict(cg: Writer, source: Any) -> None:
    cg.load_source(source.base)
    cg.load_attr("__dict__")


def _item(cg: Writer, source: Any) -> None:
    read = _plain_read(type(cg.trace.object_at(source.base)))
    if read is not None:
        cg.load_object(read)
    cg.load_source(source.base)
    cg.load_const(source.key)
    if read is not None:
        cg.call(2)
    else:
        cg.subscr()


def _keyed_item(cg: Writer, source: Any) -> None:
    cg.load_object(dict.__getitem__)
    cg.load_source(source.base)
    cg.load_source(source.key)
    cg.call(2)


def _plain_read(cls: Any) -> Callable[..., Any] | None:
    """How to read an item of a container whose class has a `__getitem__` of its own; None where `[]` will do."""
    for base, read in _PLAIN_READS:
        if issubclass(cls, base):
            return None if cls.__getitem__ in (read, OrderedDict.__getitem__) else read
    return None


def nth_key(mapping: Any, index: int) -> Any:
    """The `index`-th key of a mapping."""
    return next(islice(iter(mapping), index, None))


def _dict_key(cg: Writer, source: Any) -> None:
    cg.load_object(nth_key)
    cg.load_source(source.base)
    cg.load_const(source.index)
    cg.call(2)


def _content(cg: Writer, source: Any) -> None:
    cg.load_source(source.base)
    cg.load_attr("cell_contents")


def _type(cg: Writer, source: Any) -> None:
    cg.load_object(type)
    cg.load_source(source.base)
    cg.call(1)


def _derived(cg: Writer, source: Any) -> None:
    cg.load_object(source.function)
    cg.load_source(source.base)
    cg.call(1)


def _grad(cg: Writer, source: Any) -> None:
    cg.load_source(source.base)
    cg.load_attr("grad")


def _tensor_method(name: str, has_dim: bool) -> Callable[[Writer, Any], None]:
    def read(cg: Writer, source: Any) -> None:
        cg.load_source(source.base)
        cg.load_attr(name)
        if has_dim:
            cg.load_const(source.dim)
        cg.call(int(has_dim))

    return read


def _computed(cg: Writer, source: Any) -> None:
    cg.load_object(source.function)
    for operand in source.operands:
        cg.load_source(operand)
    cg.call(len(source.operands))


_ROWS: dict[type[s.Source], Callable[[Writer, Any], None]] = {
    s.LocalSource: _local,
    s.CellSource: _cell,
    s.PinnedSource: _pinned,
    s.GlobalSource: _global,
    s.AttrSource: _attribute,
    s.InstanceDictSource: _instance_dict,
    s.ItemSource: _item,
    s.KeyedItemSource: _keyed_item,
    s.DictKeySource: _dict_key,
    s.ContentSource: _content,
    s.TypeSource: _type,
    s.DerivedSource: _derived,
    s.GradSource: _grad,
    s.TensorSizeSource: _tensor_method("size", True),
    s.TensorStrideSource: _tensor_method("stride", True),
    s.TensorOffsetSource: _tensor_method("storage_offset", False),
    s.LiteralSource: lambda cg, source: cg.load_const(source.value),
    s.ComputedSource: _computed,
}
