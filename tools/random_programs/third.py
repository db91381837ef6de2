"""The rows that the third edition adds, in the form of `grammar`.

A type besides those of the other editions: R an object of a class hierarchy.
"""

from __future__ import annotations

EXPRESSIONS: dict[str, list[tuple[int, str]]] = {
    "T": [
        *[(3, "Doubling.apply({T})"), (2, "Doubling.apply({T}, {c} + 0.5)"), (3, "hooked({T}, log, {c})")],
        *[(3, "{=R}.applied({T})"), (2, "{=R}.value + {T}"), (2, "Diamond({T})({T}, *{N}, a={I})")],
        *[(3, "sent_through({T}, {N}, log)"), (2, "counter({I})[1]({T})"), (3, "run_to_end(waits({T}, log))")],
        *[(2, "torch.from_numpy({T}.detach().numpy() * {c})"), (1, "{T} * float(numpy.hypot({I}, {c}))")],
        *[
            (1, "{T} + int(numpy.argmax({T}.detach().numpy()))"),
            (1, "{T}[::2].repeat(2)[:3]"),
            (1, "{T}[-2:].sum() * {T}"),
        ],
        *[(1, "operator.itemgetter(0)([{T}, {T}])"), (1, "operator.methodcaller('mul', {c})({T})")],
        *[(1, "functools.partial(torch.add, alpha={c})({T}, {T})"), (1, "torch.einsum('i,i->i', {T}, {T})")],
        *[(1, "{T}.scatter_add(0, torch.tensor([0, 0, 2]), {T})"), (1, "{T}.index_fill(0, torch.tensor([1]), {c})")],
        *[
            (1, "torch.cumsum({T}, 0)"),
            (1, "{T}.to(torch.float32).to(torch.float64)"),
            (1, "{T}.to(torch.int64) + {T}"),
        ],
        *[(1, "(u := {T}) + u"), (1, "{T}.double().where({T} > {c}, {T})"), (1, "torch.atleast_2d({T})[0]")],
        *[(1, "type({=R})({T}, z={I}).value"), (1, "getattr({=R}, 'value')"), (1, "Root.value.fget({=R})")],
    ],
    "I": [
        *[(2, "counter({I})[0]({c})"), (2, "{=R}.weight"), (1, "Root.tally % 5"), (1, "len({=R}.path())")],
        *[(1, "int(numpy.prod([{I}, {c}]))"), (1, "operator.add({I}, {c})"), (1, "len(re.findall('a|b', {S}))")],
        *[(1, "sum(n for n in {N} if (half := n // 2) and half > 0)"), (1, "int({T}.numpy(force=True).shape[0])")],
        *[
            (1, "type({=R}).__mro__.index(Root)"),
            (1, "getattr({=R}, 'left', {I})"),
            (1, "(lambda *a, k=1, **r: len(a) + k)({I}, k={c})"),
        ],
        *[(1, "sorted({N}, key=lambda n: (-n % 3, n))[0] if {=N} else {I}"), (1, "{I}.bit_length()")],
        *[(1, "max(enumerate({N}), key=operator.itemgetter(1), default=(0, 0))[0]")],
    ],
    "S": [
        *[(3, "kind_of({=R})"), (1, "kind_of({=L})"), (1, "kind_of({=D})"), (2, "kind_of({I})"), (1, "kind_of({S})")],
        *[
            (2, "'/'.join({=R}.path())"),
            (1, "re.sub('a', 'o', {S})"),
            (1, "f'{{{I}:>{c}}}|{{{S}!r:<8}}|{{{I} / 7:+.3e}}'"),
        ],
        *[(1, "'{{0!r:.5}}-{{0:^7}}-{{k}}'.format({S}, k={I})"), (1, "f\"{{', '.join(sorted({=R}.rest))}}\"")],
        *[(1, "str(numpy.arange({I} % 4).tolist())"), (1, "type({=R}).__qualname__"), (1, "'%(n)05d' % dict(n={I})")],
    ],
    "B": [
        *[
            (1, "isinstance({=R}, (Left, Right))"),
            (1, "issubclass(type({=R}), Right)"),
            (1, "hasattr({=R}, 'made_it')"),
        ],
        *[
            (1, "any((last := n) > 1 for n in {N})"),
            (1, "re.match('a.', {S}) is not None"),
            (1, "weakref.ref({=R})() is {=R}"),
        ],
    ],
    "L": [
        *[(1, "[{T} for n in {N} if n % 2 if n > 0]"), (1, "sorted({L}, key=lambda t: -t.numel())[::2]")],
        *[(1, "[t for t in {L} if (n := t.numel()) > 1][:3]"), (1, "[{=R}.applied(t) for t in {L}]")],
        *[(1, "list({M}.unbind(1))[:2]"), (1, "[*map(Doubling.apply, {L})]")],
    ],
    "N": [
        *[(1, "[n for row in ([{I}], {N}) for n in row if n]"), (1, "numpy.cumsum({N}).tolist()[:4]")],
        *[(1, "[add() for add, _ in [counter({I})] for _ in range(2)]"), (1, "{N}[::-2]"), (1, "{N}[-1:0:-1]")],
    ],
    "D": [
        *[(1, "{{k: v for k, v in zip({S}[:2], {L}) if k}}"), (1, "{{k: Doubling.apply(v) for k, v in {=D}.items()}}")],
        *[
            (1, "dict(sorted({=D}.items(), key=lambda kv: kv[0], reverse=True))"),
            (1, "(lambda **named: named)(a={T}, b={T})"),
        ],
    ],
    "R": [
        *[(8, "{=R}"), (3, "Diamond({T})"), (2, "Left({T}, left={I})"), (2, "Right({T})"), (1, "Root({T}, extra={I})")],
        (1, "copy.copy({=R})"),
    ],
    "F": [
        *[(2, "Doubling.apply"), (2, "{=R}.applied"), (1, "counter({I})[1]"), (1, "operator.neg"), (1, "Diamond({T})")]
    ],
}

STATEMENTS: list[tuple[int, str]] = [
    *[(4, "{+R} = {R}"), (3, "{=R}.value = {T}"), (1, "del {=R}.value"), (2, "log.append({=R}.path())")],
    *[(2, "{=R}.value += {T}"), (1, "{=R}.left = {I}"), (1, "log.append(kind_of({=R}))"), (1, "Root.tally += {c}")],
    *[(2, "{+T} = {T}.clone(); {!T}[::2].mul_({c})"), (1, "{+T} = {T}.clone(); {!T}[1:][1:].add_({T}[:1])")],
    *[(1, "{+M} = {M}.clone(); {!M}[:, ::2].zero_()"), (1, "{+M} = {M}.clone(); {!M}.t()[1].copy_({M}[:, 0])")],
    *[
        (1, "{+M} = {M}.clone(); {!M}.index_put_((torch.tensor([0]),), {T})"),
        (1, "{!T} = {!T}.detach().requires_grad_({B})"),
    ],
    *[
        (1, "log.append([(k, v.shape) for k, v in sorted({=D}.items())])"),
        (1, "log.append({T}.detach().numpy().tolist())"),
    ],
    *[(1, "log.append(dict({=P}.named_buffers()).keys())"), (1, "{+N}[:] = sorted({N}, reverse={B})")],
    *[
        (1, "weight = getattr({=R}, 'made_' + {S}, None); log.append(weight)"),
        (1, "{=D}.update({{k: {T} for k in {S}[:1]}})"),
    ],
]

LOOPS: list[tuple[int, str]] = [
    *[(1, "{+T} in itertools.islice(averaging({T}, log), 2)"), (1, "{+S} in {=R}.path()[:2]")],
    *[(1, "{+I} in {N}[::2][:3]"), (1, "{+S}, {+T} in sorted({=D}.items(), key=operator.itemgetter(0))[:2]")],
]

MANAGERS: list[tuple[int, str]] = [
    *[(1, "torch.autograd.set_grad_enabled({B})"), (1, "contextlib.suppress(AttributeError, {E})")],
]
FIRST = ["R = Diamond(y, left=n)"]
