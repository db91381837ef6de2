"""One program a fact.

A row is a generator: it yields the program with a maker of its arguments, then what changes nothing that the program
depends on, then what changes exactly the fact.
"""

import collections
import contextlib
import itertools
import math
import types

import torch

X = torch.linspace(-1, 1, 6).reshape(2, 3)
ROWS = {}


def row(generator):
    ROWS[generator.__name__] = generator
    return generator


class Box:
    kind = "box"

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def scaled(self, x):
        return x * 2


class Other(Box):
    def scaled(self, x):
        return x * 3


def simple(make, same, change):
    """A row whose program closes over nothing but `make()`'s object."""

    def generator():
        obj, fn = make()
        yield fn, lambda: (X,)
        yield lambda: same(obj)
        yield lambda: change(obj)

    return generator


# -- attributes --------------------------------------------------------------------------------------------------------
@row
def attribute_missing():
    box = Box()
    yield (lambda x: x + 1 if hasattr(box, "extra") else x), lambda: (X,)
    yield lambda: setattr(box, "unrelated", 1)
    yield lambda: setattr(box, "extra", 1)


@row
def attribute_present():
    box = Box(extra=1)
    yield (lambda x: x + 1 if hasattr(box, "extra") else x), lambda: (X,)
    yield lambda: setattr(box, "unrelated", 1)
    yield lambda: delattr(box, "extra")


@row
def attribute_value():
    box = Box(mode="a")
    yield (lambda x: x + 1 if box.mode == "a" else x - 1), lambda: (X,)
    yield lambda: setattr(box, "mode", "".join(["a"]))
    yield lambda: setattr(box, "mode", "b")


@row
def class_attribute():
    cls = type("Local", (Box,), {"factor": "low"})
    box = cls()
    yield (lambda x: x * 2 if box.factor == "low" else x), lambda: (X,)
    yield lambda: setattr(cls, "unrelated", 1)
    yield lambda: setattr(cls, "factor", "high")


@row
def attribute_hides_that_of_the_class():
    box = Box()
    yield (lambda x: x * len(box.kind)), lambda: (X,)
    yield lambda: setattr(box, "other", "x")
    yield lambda: setattr(box, "kind", "longer")


@row
def method_of_the_class():
    cls = type("Local", (Box,), {})
    box = cls()
    yield (lambda x: box.scaled(x)), lambda: (X,)
    yield lambda: setattr(cls, "unrelated", 1)
    yield lambda: setattr(cls, "scaled", lambda self, x: x * 5)


@row
def property_of_an_object():
    cls = type("Local", (Box,), {"twice": property(lambda self: self.text * 2)})
    box = cls(text="ab")
    yield (lambda x: x * len(box.twice)), lambda: (X,)
    yield lambda: setattr(box, "text", "cd"[:1] + "d") or setattr(box, "text", "ab")
    yield lambda: setattr(box, "text", "abc")


@row
def slots():
    cls = type("Slotted", (), {"__slots__": ("mode", "unread")})
    box = cls()
    box.mode = "a"
    yield (lambda x: x + len(box.mode)), lambda: (X,)
    yield lambda: setattr(box, "unread", 1)
    yield lambda: setattr(box, "mode", "bcd")


# -- types and identities ----------------------------------------------------------------------------------------------
@row
def type_of_an_argument():
    holder = [Box]
    yield (lambda x, box: box.scaled(x)), lambda: (X, holder[0]())
    yield lambda: holder.append(1)
    yield lambda: holder.__setitem__(0, Other)


@row
def class_of_an_object():
    box = Box()
    yield (lambda x: box.scaled(x)), lambda: (X,)
    yield lambda: setattr(box, "unrelated", 1)
    yield lambda: setattr(box, "__class__", Other)


@row
def function_in_a_container():
    table = {"act": torch.relu}
    yield (lambda x: table["act"](x)), lambda: (X,)
    yield lambda: table.update(act=torch.relu)
    yield lambda: table.update(act=torch.sigmoid)


@row
def class_in_a_container():
    table = [Box]
    yield (lambda x: table[0]().scaled(x)), lambda: (X,)
    yield lambda: table.__setitem__(0, Box)
    yield lambda: table.__setitem__(0, Other)


@row
def module_in_a_namespace():
    names = types.SimpleNamespace(lib=math)
    yield (lambda x: x * names.lib.floor(2.5)), lambda: (X,)
    yield lambda: setattr(names, "unrelated", 1)
    yield lambda: setattr(names, "lib", types.SimpleNamespace(floor=lambda value: 7))


@row
def builtin_in_a_container():
    table = [len]
    yield (lambda x, items: x * table[0](items)), lambda: (X, [1, 2, 3])
    yield lambda: table.__setitem__(0, len)
    yield lambda: table.__setitem__(0, sum)


@row
def closure_function():
    def helper(x):
        return x + 1

    def rebind():
        nonlocal helper

        def helper(x):
            return x * 10

    yield (lambda x: helper(x)), lambda: (X,)
    yield lambda: None
    yield rebind


@row
def defaults_of_a_function():
    def helper(x, text="ab"):
        return x * len(text)

    yield (lambda x: helper(x)), lambda: (X,)
    yield lambda: setattr(helper, "unrelated", 1)
    yield lambda: setattr(helper, "__defaults__", ("abcd",))


@row
def code_of_a_function():
    def helper(x):
        return x + 1

    yield (lambda x: helper(x)), lambda: (X,)
    yield lambda: setattr(helper, "unrelated", 1)
    yield lambda: setattr(helper, "__code__", (lambda x: x * 4).__code__)


# -- constants ---------------------------------------------------------------------------------------------------------
def constant(name, first, same, second, use):
    def generator():
        holder = [first]
        yield use, lambda: (X, holder[0])
        yield lambda: holder.__setitem__(0, same)
        yield lambda: holder.__setitem__(0, second)

    generator.__name__ = name
    row(generator)


constant("boolean", True, not False, False, lambda x, flag: x + 1 if flag else x)
constant("none", None, None, "set", lambda x, value: x if value is None else x + 1)
constant("not_none", "set", "".join("set"), None, lambda x, value: x if value is None else x + 1)
constant("text", "add", "".join("add"), "mul", lambda x, kind: x + 2 if kind == "add" else x * 2)
constant("integer_type", 1, 1, True, lambda x, n: (x + n, type(n).__name__))
constant("text_subclass", "a", "".join("a"), type("Text", (str,), {})("a"), lambda x, text: (x, type(text).__name__))
constant("dtype", torch.float64, torch.double, torch.float16, lambda x, dtype: x.to(dtype))
constant("bytes_value", b"ab", bytes([97, 98]), b"abc", lambda x, value: x * len(value))
constant("slice_value", slice(0, 1), slice(0, 1), slice(0, 2), lambda x, part: x[part])
constant("range_value", range(2), range(0, 2, 1), range(1, 3), lambda x, values: x + sum(values) * len(values))
constant("tuple_of_constants", ("a", 2), ("a", 2), ("b", 2), lambda x, pair: x * len(pair) + (pair[0] == "a"))
constant("empty_list", [], [], [1], lambda x, items: x if items else x + 1)


# -- containers --------------------------------------------------------------------------------------------------------
@row
def length_of_a_list():
    items = ["a", "b"]
    yield (lambda x: x * len(items)), lambda: (X,)
    yield lambda: items.__setitem__(0, "c")
    yield lambda: items.append("d")


@row
def item_of_a_list():
    items = ["add", "unread"]
    yield (lambda x: x + 1 if items[0] == "add" else x), lambda: (X,)
    yield lambda: items.__setitem__(1, "other")
    yield lambda: items.__setitem__(0, "sub")


@row
def key_in_a_dictionary():
    table = {"a": 1, "unread": 2}
    yield (lambda x: x + 1 if "a" in table else x), lambda: (X,)
    yield lambda: table.update(other=3)
    yield lambda: table.pop("a")


@row
def key_not_in_a_dictionary():
    table = {"unread": 2}
    yield (lambda x: x + 1 if "a" in table else x), lambda: (X,)
    yield lambda: table.update(other=3)
    yield lambda: table.update(a=1)


@row
def keys_of_a_dictionary():
    table = {"a": "x", "b": "y"}
    yield (lambda x: [x * len(name) for name in table]), lambda: (X,)
    yield lambda: table.update(a="z")
    yield lambda: table.update(ccc="z")


@row
def order_of_a_dictionary():
    table = {"a": "x", "bb": "y"}
    yield (lambda x: [x * len(name) for name in table]), lambda: (X,)
    yield lambda: table.update(a="z")
    yield lambda: table.update(a=table.pop("a"))


@row
def order_of_an_ordered_dictionary():
    table = collections.OrderedDict(a="x", bb="y")
    yield (lambda x: [x * len(name) for name in table]), lambda: (X,)
    yield lambda: table.update(a="z")
    yield lambda: table.move_to_end("a")


@row
def item_in_a_set():
    names = {"a", "b"}
    yield (lambda x: x + 1 if "a" in names else x), lambda: (X,)
    yield lambda: names.update(["a"])
    yield lambda: names.discard("a")


@row
def item_not_in_a_set():
    names = {"b"}
    yield (lambda x: x + 1 if "a" in names else x), lambda: (X,)
    yield lambda: names.update(["b"])
    yield lambda: names.add("a")


@row
def mapping_proxy():
    table = {"a": "x"}
    view = types.MappingProxyType(table)
    yield (lambda x: x * len(view["a"])), lambda: (X,)
    yield lambda: table.update(b="y")
    yield lambda: table.update(a="long")


@row
def deque_items():
    items = collections.deque(["a", "b"])
    yield (lambda x: x * len(items)), lambda: (X,)
    yield lambda: None
    yield lambda: items.append("c")


# -- aliasing ----------------------------------------------------------------------------------------------------------
LISTED = ["aa", "b"]
TENSOR = torch.ones(3)


@row
def argument_that_is_a_global():
    holder = [LISTED]
    yield (lambda x, items: x * len(LISTED[0]) + len(items[0])), lambda: (X, holder[0])
    yield lambda: holder.append(1)
    yield lambda: holder.__setitem__(0, ["cccc"])


@row
def argument_that_is_a_global_tensor():
    holder = [TENSOR]
    yield (lambda x, other: x * TENSOR + other * 10), lambda: (X, holder[0])
    yield lambda: holder.append(1)
    yield lambda: holder.__setitem__(0, torch.full((3,), 5.0))


@row
def argument_that_is_an_attribute():
    box = Box(items=["aa"])
    holder = [box.items]
    yield (lambda x, items: x * len(box.items[0]) + len(items[0])), lambda: (X, holder[0])
    yield lambda: setattr(box, "unrelated", 1)
    yield lambda: holder.__setitem__(0, ["cccc"])


@row
def argument_that_is_in_a_closure():
    captured = ["aa"]
    holder = [captured]
    yield (lambda x, items: x * len(captured[0]) + len(items[0])), lambda: (X, holder[0])
    yield lambda: holder.append(1)
    yield lambda: holder.__setitem__(0, ["cccc"])


@row
def argument_that_is_an_element():
    table = {"items": ["aa"]}
    holder = [table["items"]]
    yield (lambda x, items, table: x * len(table["items"][0]) + len(items[0])), lambda: (X, holder[0], table)
    yield lambda: table.update(other=1)
    yield lambda: holder.__setitem__(0, ["cccc"])


@row
def two_arguments_that_are_one():
    holder = [None]
    yield (lambda a, b: a.mul(2) + b if a is b else a - b), lambda: (X, holder[0] if holder[0] is not None else X)
    yield lambda: holder.append(1)
    yield lambda: holder.__setitem__(0, X + 1)


@row
def a_changed_object_that_is_read_too():
    one, two = ["a"], ["b"]
    holder = [two]

    def fn(x, items):
        items.append("c")
        size = len(items)
        items.pop()
        return x * size + len(one[0])

    yield fn, lambda: (X, holder[0])
    yield lambda: two.__setitem__(0, "".join("b"))
    yield lambda: holder.__setitem__(0, one)


@row
def inputs_that_share_memory():
    base = torch.zeros(12)
    holder = [lambda: (base[:6].clone(), base[6:].clone())]

    def fn(a, b):
        a.add_(1)
        return a + b

    yield fn, lambda: holder[0]()
    yield lambda: holder.__setitem__(0, lambda: torch.zeros(12).split(6))
    yield lambda: holder.__setitem__(0, lambda: (lambda t: (t[:6], t[3:9]))(torch.zeros(12)))


# -- tensors -----------------------------------------------------------------------------------------------------------
def tensor(name, first, second, use=lambda x: x * 2 + 1, same=lambda: None):
    def generator():
        holder = [first]
        yield use, lambda: (holder[0](),)
        yield same
        yield lambda: holder.__setitem__(0, second)

    generator.__name__ = name
    row(generator)


tensor("tensor_dtype", lambda: X.clone(), lambda: X.double())
tensor("tensor_rank", lambda: X.clone(), lambda: X.reshape(-1))
tensor("tensor_size", lambda: X.clone(), lambda: torch.ones(5, 3), lambda x: x * x.shape[0])
tensor("tensor_stride", lambda: X.clone(), lambda: torch.ones(3, 2).t(), lambda x: x.clone())
tensor("tensor_requires_grad", lambda: X.clone(), lambda: X.clone().requires_grad_(), lambda x: (x * 2).relu())
tensor("tensor_class", lambda: X.clone(), lambda: torch.nn.Parameter(X.clone()), lambda x: x.detach() * 2)
tensor("tensor_conjugate", lambda: X.to(torch.complex64), lambda: X.to(torch.complex64).conj(), lambda x: x * 2)
tensor("tensor_negative", lambda: X.clone(), lambda: X.clone()._neg_view())
tensor("tensor_device", lambda: X.clone(), lambda: X.to("meta"), lambda x: x.shape[0] if x.is_meta else x + 1)
tensor("tensor_attribute", lambda: X.clone(), lambda: tagged(X.clone()), lambda x: x + hasattr(x, "tag"))


def tagged(value):
    value.tag = 1
    return value


@row
def tensor_gradient():
    x = X.clone().requires_grad_()
    yield (lambda x: x.detach() if x.grad is None else x.detach() + x.grad), lambda: (x,)
    yield lambda: None
    yield lambda: setattr(x, "grad", torch.ones_like(x))


# -- modules -----------------------------------------------------------------------------------------------------------
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.drop = torch.nn.Dropout(0.0)
        self.layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])

    def forward(self, x):
        x = self.fc(x) + (1 if self.training else 0)
        for layer in self.layers:
            x = layer(x)
        return self.drop(x)


def module(name, same, change):
    def generator():
        torch.manual_seed(0)
        net = Net()
        yield (lambda x: net(x)), lambda: (X,)
        yield lambda: same(net)
        yield lambda: change(net)

    generator.__name__ = name
    row(generator)


def replace_weight(net):
    net.fc.weight = torch.nn.Parameter(torch.zeros(3, 3))


module("module_mode", lambda net: net.train(), lambda net: net.eval())
module("module_mode_of_a_child", lambda net: net.drop.train(), lambda net: net.layers.append(torch.nn.Sigmoid()))
module("module_replaced_weight", replace_weight, lambda net: setattr(net, "fc", torch.nn.Linear(3, 3, bias=False)))
module("module_hook", lambda net: None, lambda net: net.fc.register_forward_hook(lambda m, args, out: out * 2))
module("module_global_hook", lambda net: None, lambda net: GLOBAL_HOOKS.append(_global_hook()))
module("module_forward", lambda net: None, lambda net: setattr(net.fc, "forward", lambda x: x * 7))
GLOBAL_HOOKS = []


def _global_hook():
    return torch.nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 2)


# -- modes -------------------------------------------------------------------------------------------------------------
def mode(name, enter, use, unrelated=lambda: None):
    def generator():
        stack = contextlib.ExitStack()
        weight = torch.linspace(0, 1, 3).requires_grad_()
        yield (lambda x: use(x, weight)), lambda: (X,)
        yield unrelated
        yield lambda: (stack.enter_context(enter()), stack)[1]

    generator.__name__ = name
    row(generator)


@contextlib.contextmanager
def set_and_reset(setter, value, before):
    setter(value)
    try:
        yield
    finally:
        setter(before)


def threads():
    count = torch.get_num_threads()
    torch.set_num_threads(count + 1)
    torch.set_num_threads(count)


mode("gradient_mode", torch.no_grad, lambda x, weight: x * weight, threads)
mode("gradient_mode_that_is_read", torch.no_grad, lambda x, weight: x + (1 if torch.is_grad_enabled() else 2))
mode("inference_mode", torch.inference_mode, lambda x, weight: (x * weight).detach())
mode("autocast", lambda: torch.autocast("cpu", dtype=torch.bfloat16), lambda x, weight: x @ x.T + weight.sum())
mode(
    "autocast_of_another_type",
    lambda: torch.autocast("cpu", dtype=torch.float16),
    lambda x, weight: (x.detach() @ x.detach().T).dtype,
)
mode(
    "default_dtype",
    lambda: set_and_reset(torch.set_default_dtype, torch.float64, torch.float32),
    lambda x, weight: x + torch.ones(3),
)
mode(
    "deterministic",
    lambda: set_and_reset(torch.use_deterministic_algorithms, True, False),
    lambda x, weight: x + (2 if torch.are_deterministic_algorithms_enabled() else 1),
)
mode(
    "thread_count_that_is_read",
    lambda: set_and_reset(torch.set_num_threads, 3, torch.get_num_threads()),
    lambda x, weight: x * torch.get_num_threads(),
)
mode(
    "matmul_precision_that_is_read",
    lambda: set_and_reset(torch.set_float32_matmul_precision, "high", "highest"),
    lambda x, weight: x * len(torch.get_float32_matmul_precision()),
)


# -- sizes -------------------------------------------------------------------------------------------------------------
@row
def branch_on_a_size():
    sizes = itertools.chain([4, 8], itertools.repeat(6))
    holder = [4]
    yield (lambda x: x * 2 if x.shape[0] % 4 == 0 else x), lambda: (torch.ones(holder[0], 3),)
    yield lambda: next(sizes)
    yield lambda: holder.__setitem__(0, 6)
