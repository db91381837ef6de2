"""The rows that the second edition adds, in the form of `grammar`.

Types besides those of `grammar`: M matrix of three columns, K set of ints, U tuple of ints, Q deque of tensors,
G counter of words, A object with slots, Y iterator of tensors, P module.
"""

from __future__ import annotations

EXPRESSIONS: dict[str, list[tuple[int, str]]] = {
    "T": [
        *[(2, "{M}[0]"), (2, "{M}.sum(0)"), (1, "{M}[-1].clone()"), (1, "({M}[:, 1].sum() + {T})")],
        *[(1, "{M}.amax(0)"), (1, "{M}.unbind(0)[0]"), (1, "{M}.reshape(-1)[:3]"), (1, "{M}[{I} % {=M}.shape[0]]")],
        *[(1, "{M}.mean(0)"), (1, "{T}[[2, 0, 1]]"), (1, "{T}.sort().values"), (1, "{T}.roll(1)")],
        *[(1, "torch.cat([{T}[:1], {T}[1:]])"), (1, "{T}.unsqueeze(0).expand(2, 3)[1]"), (1, "{T}.detach()")],
        *[(1, "({T} > 0).to({=T}.dtype)"), (1, "torch.full_like({T}, {I})"), (1, "{T}.float().double()")],
        *[(1, "{T}.clamp(min=-{I}, max={I} + 1)"), (1, "torch.linspace(0, {I}, 3, dtype=torch.float64)")],
        *[(1, "torch.rand(3, dtype=torch.float64)"), (1, "random.choice([{T}, {T}])")],
        *[(1, "{T}.masked_fill({T} < 0, 0.5)"), (1, "hidden({T}, *{N})"), (2, "{=A}[0]"), (1, "({T} + {=A})")],
        *[(1, "({=A} @ {T})"), (1, "Slot.half({T})"), (1, "sum({=A}, {T})"), (1, "{=A}.half({T})")],
        *[(2, "next({=Y}, {T})"), (1, "next((t for t in {=Q} if {B}), {T})"), (1, "{=Q}[-1]")],
        *[(1, "many({T}, {c}, d={I})"), (1, "many({T}, *{N}, d={c}, **{{{S}: {I}}})"), (1, "Pair({T}).left")],
        *[(1, "keywords({T}, *{=N}, **{{'scale': {c}}})"), (1, "early({T}, {L}, log)"), (1, "({T} * SCALE)")],
        *[(1, "max({L} or [{T}], key=lambda t: t.dim())"), (1, "(-{T} if {B} else +{T})"), (1, "{T} ** 2")],
        (1, "dataclasses.replace(Point(number={I}), value={T}).value"),
        *[(1, "functools.reduce(torch.add, {=Q}, {T})"), (1, "traced(log)({=F})({T})")],
        *[(1, "make_box({T}, log).value"), (1, "torch.nn.functional.relu({T})")],
        (1, "torch.outer({T}, {T}).diagonal()"),
    ],
    "M": [
        *[(8, "{=M}"), (2, "({=M} * {c})"), (2, "({=M} + {T})"), (1, "{=M}.relu()"), (1, "{=M}.flip(0)")],
        *[(1, "torch.cat([{=M}[:1], {=M}[1:]])"), (1, "{=M}.t().contiguous().t()"), (1, "{=M}.clone()")],
        *[(3, "{=P}({=M})"), (1, "{=P}({M}, scale={c})"), (1, "{=M}.cumsum(0)")],
        *[(1, "{=M} @ torch.outer({T}, {T})"), (1, "torch.where({=M} > {c}, {=M}, {T})")],
        *[(1, "{=M}.expand(2, -1, -1)[1]"), (1, "say(log, {=M})")],
        *[(1, "torch.stack(list({=M})) if len({=M}) < 6 else {=M}"), (1, "{=M}.view({=M}.size())"), (1, "{=M}[:]")],
        (1, "{=M}.reshape({=M}.shape[0], 3)"),
    ],
    "I": [
        *[(2, "{M}.shape[0]"), (1, "{M}.numel() // 3"), (1, "{M}.size(-1)"), (1, "int({T}.argmax().item())")],
        *[(2, "{=G}[{S}]"), (2, "len({K})"), (1, "sum(1 for t in {=L} if {B})"), (1, "(({I} << 1) % 64)")],
        *[(1, "(({I} + 9) // 2)"), (1, "({I} ** 2 % 11)"), (1, "(-{I} // 3)"), (1, "round({I} / 3)")],
        *[(1, "bump({c})"), (1, "(True + {B})"), (1, "len({=A})"), (2, "{=A}.level"), (1, "{=A}.reads")],
        *[(1, "type({=A}).limit"), (1, "{U}[0]"), (1, "sum({U})"), (1, "max(*{U}, {I})")],
        *[(1, "random.randint(0, 4)"), (1, "{=P}.layers[0].steps"), (1, "Point(number={I}).number")],
        *[(1, "Color({c}).value"), (1, "{=T}.dim()"), (1, "sum({K})"), (1, "SCALE"), (1, "int({S} or '7', 36) % 5")],
        *[(1, "min({K}, default={I})"), (1, "Pair({I}).right"), (1, "bool({I}) + 1")],
        *[(1, "sorted({=D}).index(min({=D}))"), (1, "ord({S}[0]) % 3"), (1, "len([*{N}, *{U}])")],
        *[(1, "Counted.depth"), (1, "int({I} & 6 | 1 ^ {c})"), (1, "[n for n in range({I} % 5)][-1]")],
        (1, "int(float({I}) * 1.5)"),
    ],
    "S": [
        *[(1, "f'{{{=I}:03d}}|{{{=S}:>4}}'"), (1, "('%(a)s' % {{'a': {S}}})"), (1, "{S}.replace('a', 'bb')")],
        *[(1, "({S}.split('a') or ['q'])[-1]"), (1, "{S}.title()"), (1, "{S}.center(6, '*')")],
        *[(1, "str({=T}.dtype)"), (1, "repr({U})"), (1, "'{{:>{{}}}}'.format({S}, {c})")],
        *[(1, "{S}.partition('b')[0]"), (1, "{S}.zfill(4)"), (1, "f'{{{=S}!a}}{{{=U}}}'")],
        *[(1, "f'{{{=A}}}|{{{=A}:4}}'"), (1, "repr({=A})"), (1, "str(sorted({K}))"), (1, "Color.RED.other.name")],
        *[(1, "f'{{{=I}=}}'"), (1, "{S}.encode().hex()[:5]"), (1, "word"), (1, "' '.join(sorted({=G}))[:6]")],
        *[(1, "{S}.lstrip('a') + {S}.swapcase()"), (1, "repr(Point(number={I}))"), (1, "('yes' if {B} else 'no')")],
        *[(1, "f'{{{=I} / 3:.2f}}{{{=I}:b}}'"), (1, "str(tuple({=M}.shape))")],
        *[(1, "'%5.1f|%-3d|%x' % ({I} / 2, {I}, abs({I}))"), (1, "{S}.translate({{97: 'x'}})")],
        (1, "str({E}({S}))"),
    ],
    "B": [
        *[(2, "flag"), (1, "({I} in {K})"), (1, "({K} <= {K})"), (1, "({I} in {=A})"), (1, "({=A} < {=A})")],
        *[(1, "({U} < {U})"), (1, "{=P}.training"), (1, "torch.is_grad_enabled()"), (1, "({S}.startswith('a'))")],
        *[(1, "({=T}.shape == ({c},))"), (1, "(Color(1) is Color.RED)"), (1, "callable({=F})"), (1, "({N} == {N})")],
        *[(1, "({=M}.shape[0] > {c})"), (1, "({I} not in {U})"), (1, "(Point(number={I}) < Point(number={c}))")],
        *[(1, "({T} > 0).all().item()"), (1, "torch.equal({T}, {T})"), (1, "({=T}.requires_grad)")],
        *[(1, "bool({=Q})"), (1, "(1 <= {I} < {I} != 3)"), (1, "(isinstance({=A}, DeepSlot) or {B})")],
        (1, "{T}.is_contiguous()"),
    ],
    "L": [
        *[(1, "list({=Q})"), (1, "list({=Y})[:3]"), (1, "[*{=A}]"), (1, "list({M})[:3]")],
        *[(1, "[t[0] for t in {=M}.split(1)]"), (1, "[t + i for i, t in enumerate({=L}) if i % 2 == 0]")],
        *[(1, "[t for t in {=L} if t is not {=T}]"), (1, "list(outer({T}, log))")],
        *[(1, "[v for k, v in {=D}.items() if k > 'a']"), (1, "{=L} + [{T}]")],
        *[(1, "[h for t in {=L} if (h := t * 2) is not None]"), (1, "[[{T}], {=L}][{I} % 2]"), (1, "{=L} * 2")],
        *[(1, "sorted({=L}, key=lambda t: t.numel())"), (1, "[f({T}) for f in [{=F}, lambda t: t + 1]]")],
    ],
    "N": [
        *[(1, "[*{U}]"), (1, "sorted({K})"), (1, "[n * m for n in {=N} for m in {=U}][:3]")],
        *[(1, "list({=G}.values())"), (1, "[a * b for a, b in zip({=N}, {=U})]")],
        *[(1, "[n for n, _ in itertools.groupby({=N})]"), (1, "{=N}[::-1]"), (1, "[len(k) for k in {=D}]")],
        *[(1, "list(itertools.chain({=N}, {U}))[:4]"), (1, "[*map(abs, {=N})]")],
        *[(1, "list(itertools.takewhile(lambda n: n < 3, {=N}))"), (1, "{=N}[1:3]")],
        (1, "[{I} if n else n for n in {=N}]"),
    ],
    "D": [
        *[(1, "dict.fromkeys({S}, {T})"), (1, "{{k: t for k, t in zip('xyz', {=L})}}"), (1, "{=D} | {{{S}: {T}}}")],
        *[(1, "collections.OrderedDict({=D})"), (1, "dict(collections.ChainMap({{'q': {T}}}, {=D}))")],
        *[(1, "{=D}.copy()"), (1, "dict({=D}, c={T})"), (1, "{{**{=D}}} if {B} else {{'z': {T}}}")],
    ],
    "K": [
        *[(6, "{=K}"), (3, "{{{I}, {I}}}"), (1, "set({N})"), (1, "({=K} | {=K})"), (1, "({=K} & {{{I}, {c}}})")],
        *[(1, "{{n % 3 for n in {N}}}"), (1, "frozenset({U})"), (1, "({=K} - {{{c}}})"), (1, "({=K} ^ {{{I}}})")],
    ],
    "U": [
        *[(6, "{=U}"), (3, "({I}, {I})"), (1, "(tuple({N}) or (1,))"), (1, "({U} + ({I},))[-3:]")],
        *[(1, "{=U}[::-1]"), (1, "tuple(sorted({=U}))"), (1, "(*{=U}, {I})[:3]"), (1, "divmod({I}, 4)")],
        *[(1, "tuple({=M}.shape)"), (1, "Pair({I}, {I})")],
    ],
    "Q": [
        *[(6, "{=Q}"), (2, "collections.deque([{T}], 3)"), (1, "collections.deque([*{L}, {T}], maxlen=2)")],
        (1, "copy.copy({=Q})"),
    ],
    "G": [
        *[(6, "{=G}"), (2, "collections.Counter({S})"), (1, "collections.defaultdict(int, {{{S}: {I}}})")],
    ],
    "A": [
        *[(8, "{=A}"), (3, "Slot({T}, {I})"), (2, "DeepSlot({T})"), (1, "Slot.of({T}, {T})")],
        *[(1, "DeepSlot.of({T})"), (1, "~{=A}")],
    ],
    "Y": [
        *[(4, "iter({L})"), (2, "(t * {c} for t in {L})"), (2, "map({=F}, {L})"), (1, "numbers({T}, {c}, log)")],
        *[(2, "{=Y}"), (1, "itertools.chain({L}, {L})"), (1, "reversed({L})"), (1, "iter({D}.values())")],
        *[(1, "outer({T}, log)"), (1, "itertools.islice({L}, 1, None)"), (1, "filter(lambda t: {B}, {L})")],
    ],
    "P": [
        *[(8, "{=P}"), (2, "{=P}.layers[0]"), (1, "NET")],
    ],
    "O": [
        *[(2, "Special(value={T}, number={I})"), (1, "make_box({T}, log)"), (1, "max({=O}, {=O}, key=len)")],
    ],
    "F": [
        *[(1, "functools.partial(keywords, scale={I})"), (1, "Slot.half"), (1, "{=A}.__matmul__"), (1, "hidden")],
        *[(1, "traced(log, {S})({=F})"), (1, "[{=F}, torch.cos][{I} % 2]"), (1, "{=T}.add")],
        *[(1, "(lambda t: {=T} + t)"), (1, "functools.lru_cache(lambda t: t * 2)")],
    ],
    "E": [
        *[(1, "IndexError"), (1, "TypeError"), (1, "ZeroDivisionError"), (1, "StopIteration")],
        (1, "AttributeError"),
    ],
}

STATEMENTS: list[tuple[int, str]] = [
    *[(5, "{+M} = {M}"), (2, "{+K} = {K}"), (2, "{+U} = {U}"), (2, "{+Q} = {Q}"), (1, "{+G} = {G}")],
    *[(3, "{+A} = {A}"), (3, "{+Y} = {Y}"), (2, "{+P} = {P}"), (2, "{=M}.mul_(0.5)"), (1, "{=M}[0] = {T}")],
    *[(1, "{=M}[0].add_({c})"), (1, "{=M}[:, 1] = {c}"), (1, "{=M}.t()[0].fill_({I})"), (2, "y.add_({c})")],
    *[(1, "y[1:] *= 2"), (1, "x.mul_(2)"), (2, "{+T} = {T}.clone(); {!T}[1:].mul_({c})")],
    *[(1, "{+T} = {T}.detach(); {!T}.add_(1)"), (1, "{!M} += {T}"), (1, "{+T} = y[:]; {!T}.neg_()")],
    *[(1, "{+M} = {M}.clone(); {+T} = {!M}[0]; {!T}.add_({T})"), (1, "y.copy_({T})")],
    (1, "{!M}.relu_() if {B} else {=M}.zero_()"),
    (1, "torch.add({T}, {c}, out=torch.empty(3, dtype=torch.float64))"),
    *[(1, "{=K}.add({I}) if isinstance({=K}, set) else None"), (1, "{!K} |= {{{I}}}"), (1, "{=Q}.append({T})")],
    *[(1, "{=Q}.appendleft({T})"), (1, "{=Q}.rotate({I})"), (1, "{=Q} and log.append({=Q}.popleft())")],
    *[(2, "{=G}[{S}] += {c}"), (1, "{=G}.update({{{S}: {I}}})"), (1, "log.append(sorted({=G}.items()))")],
    *[(2, "{=A}.level = {I}"), (1, "{=A}[0] = {T}"), (1, "{!A} += {T}"), (1, "{=A}.items.append({T})")],
    *[(1, "del {=A}[0]"), (1, "log.append(next({=Y}, None))"), (1, "log.append(list({=Y})[:2])")],
    *[(1, "a, b, *c = [*{U}, {I}, {I}]; log.append(c)"), (1, "{=P}.train({B})"), (1, "{=P}.eval()")],
    *[(1, "{+M} = {=P}.requires_grad_({B})({=M})"), (1, "bump({I})"), (1, "NET.layers[1].steps += {c}")],
    *[(1, "{=P}.zero_grad()"), (1, "del {=L}[:1]"), (1, "{=L}[:0] = {=L}")],
    *[(1, "{=L}.sort(key=lambda t: t.dim(), reverse={B})"), (1, "{=N}.remove({=N}[0]) if {=N} else None")],
    *[(1, "print(*{=N}, {S}, sep={S}, end=';')"), (1, "print(f'{{{=T}.shape}}', {U})"), (1, "log += [{S}]")],
    *[(1, "setattr({=O}, {S}, {I})"), (1, "log.append(sorted(k for k in vars({=O}) if k > 'c'))")],
    *[(1, "{!S} += {S}"), (1, "{!U} += ({c},)"), (1, "{!D} |= {{{S}: {T}}}")],
    *[(1, "log.append(Pair({I})._asdict())"), (1, "{!I} **= 2; {!I} %= 5")],
    *[(1, "log.append({=D}.popitem()[0]) if {=D} else None"), (1, "assert {B}, {S}")],
    *[(1, "raise {E}({S}) if {B} else Trouble(1)"), (1, "STATE.update(calls=STATE['calls'] + {c})")],
    *[(1, "Slot.limit = {I}"), (1, "log.append(callable({=F}))"), (1, "{=O}.value, {=O}.count = {T}, {I}")],
    *[(1, "{+I}, ({+S}, *{+N}) = {I}, ({S}, *{U})"), (1, "{+F} = {=F}")],
    *[(1, "log.append([n for n in {=N} if say(log, n)])"), (1, "Trouble.seen = getattr(Trouble, 'seen', 0) + {c}")],
    (1, "log.append((lambda *a, **k: (a, sorted(k)))(*{U}, **{{{S}: {I}}}))"),
]

BLOCKS: list[tuple[int, str]] = [
    *[(1, "star_handlers"), (1, "leaving_finally"), (2, "stack"), (2, "thrown"), (1, "recursion")],
    *[(1, "late_closures"), (1, "decorated"), (1, "deleted"), (2, "own_class"), (2, "patterns"), (1, "forever")],
    *[(1, "as_target"), (1, "cells"), (1, "chained"), (1, "nested_function_break")],
]

LOOPS: list[tuple[int, str]] = [
    *[(1, "{+T} in {=M}[:2]"), (2, "{+T} in itertools.islice({=Y}, 2)"), (1, "{+T} in {=A}.items[:2]")],
    *[(1, "{+I} in {U}"), (1, "{+I}, {+S} in enumerate({S}[:2], {c})")],
    *[(1, "{+I}, ({+T}, {+I}) in enumerate(zip({=L}[:2], {N}))"), (1, "{+S}, {+I} in list({=G}.items())[:2]")],
    *[(1, "{+T} in outer({T}, log)"), (1, "{+I} in sorted({K})[:3]"), (1, "{+T} in list({=Q})")],
    *[(1, "{+I} in range({I} % 5, 0, -2)"), (1, "{+I} in (n for n in {N}[:3] if n)")],
    *[(1, "{+F} in [torch.sin, {=F}]"), (1, "({+I}, *{+N}) in [{U}, (1, 2, 3)]"), (1, "{+I} in iter({N}[:2])")],
]

MANAGERS: list[tuple[int, str]] = [
    *[(1, "torch.set_grad_enabled({B})"), (1, "Counted()"), (1, "Counted(), Manager(log, {B})")],
    *[(1, "contextlib.closing(catching({T}, log))"), (1, "contextlib.suppress(ValueError, {E})")],
]
