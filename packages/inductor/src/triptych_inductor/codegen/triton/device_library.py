"""Device functions that generated kernels call as `lib.<name>`. Imports Triton alone, so that build workers start fast.

Meaning follows torch on the same device: NaN is passed on by minima and maxima, integer quotients round down, the first
of equal extremes wins, shifts by more than the width give 0 or the sign.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

# Minima and maxima.


@triton.jit
def minimum(a, b):
    """The smaller, NaN if either is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def maximum(a, b):
    """The larger, NaN if either is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def relu(x):
    """max(x, 0), NaN passed on."""
    return tl.where(x <= 0, 0.0, x).to(x.dtype)


@triton.jit
def sign(x):
    """-1, 0 or 1 in the dtype of x; 0 for NaN."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


# Quotients and remainders.


@triton.jit
def floordiv_signed(a, b):
    """Integer quotient rounded down. Division by zero is undefined, as in eager on GPUs."""
    quotient = a // b
    inexact = (a % b) != 0
    return tl.where(inexact & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def remainder_signed(a, b):
    """Integer remainder with the divisor's sign."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def remainder_float(a, b):
    """Remainder with the divisor's sign."""
    rest = libdevice.fmod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def floordiv_float(a, b):
    """Quotient rounded down, through the remainder, so that it agrees with it where a / b rounds up to an integer."""
    rest = libdevice.fmod(a, b)
    quotient = (a - rest) / b
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    floored = libdevice.floor(quotient)
    floored = tl.where(quotient - floored > 0.5, floored + 1, floored)
    ratio = a / b
    floored = tl.where(quotient != 0, floored, libdevice.copysign(quotient * 0, ratio))
    return tl.where(b == 0, ratio, floored)


# Powers, shifts, bits.


@triton.jit
def pow_unsigned(base, exponent):
    """Integer power by squaring; wraps."""
    result = base * 0 + 1
    for _ in range(64):
        result = tl.where((exponent & 1) != 0, result * base, result)
        base = base * base
        exponent = exponent >> 1
    return result


@triton.jit
def pow_signed(base, exponent):
    """Integer power; a negative exponent gives 0, or a sign for bases 1 and -1."""
    power = pow_unsigned(base, tl.where(exponent < 0, 0, exponent))
    odd = (exponent & 1) != 0
    inverse = tl.where(base == 1, 1, tl.where(base == -1, tl.where(odd, -1, 1), 0))
    return tl.where(exponent < 0, inverse.to(power.dtype), power)


@triton.jit
def bitwise_not(x):
    """All bits of an unsigned integer flipped."""
    return x ^ (x * 0 - 1)


@triton.jit
def shift_left(a, b, bits: tl.constexpr):
    """a << b; 0 where b is negative or at least the width."""
    inside = (b >= 0) & (b < bits)
    return tl.where(inside, a << tl.where(inside, b, 0), 0).to(a.dtype)


@triton.jit
def shift_right(a, b, bits: tl.constexpr):
    """a >> b of unsigned integers; 0 where b is at least the width."""
    inside = b < bits
    return tl.where(inside, a >> tl.where(inside, b, 0), 0).to(a.dtype)


@triton.jit
def shift_right_signed(a, b, bits: tl.constexpr):
    """Arithmetic a >> b; the sign where b is negative or at least the width."""
    inside = (b >= 0) & (b < bits)
    return a >> tl.where(inside, b, bits - 1).to(a.dtype)


@triton.jit
def signbit_float(x):
    """Whether the sign bit of a float32 is set."""
    return x.to(tl.int32, bitcast=True) < 0


@triton.jit
def signbit_double(x):
    """Whether the sign bit of a float64 is set."""
    return x.to(tl.int64, bitcast=True) < 0


@triton.jit
def nextafter(a, b, bits: tl.constexpr):
    """The neighbour of a in the direction of b; `bits` is the integer type of the same width."""
    raw = a.to(bits, bitcast=True)
    here, there = a.to(tl.float64), b.to(tl.float64)
    away = (there > here) == (raw >= 0)
    stepped = raw + tl.where(away, 1, -1).to(bits)
    tiny = tl.where(there > 0, 1, 1 | (raw * 0 - 1) << (a.dtype.primitive_bitwidth - 1)).to(bits)
    stepped = tl.where(here == 0, tiny, stepped)
    moved = stepped.to(a.dtype, bitcast=True)
    moved = tl.where(here == there, b, moved)
    return tl.where(here != here, a, tl.where(there != there, b, moved))


# Functions that vendors' libraries lack, or spell for one dtype only.


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)), correctly rounded division."""
    return tl.div_rn(1.0, 1.0 + libdevice.exp(-x))


@triton.jit
def sigmoid_double(x):
    """1 / (1 + exp(-x)) in float64."""
    return 1.0 / (1.0 + libdevice.exp(-x))


@triton.jit
def erf(x):
    """Error function of float32, to two units in the last place: x + x * P(x * x) below 1, 1 - 2 ** -Q(|x|) above.

    Both polynomials are minimax fits; evaluating both costs less than choosing each coefficient, as libraries do.
    """
    square = x * x
    small = square * 7.853847637306899e-05 - 0.0008010189631022513
    small = small * square + 0.00518832728266716
    small = small * square - 0.026853810995817184
    small = small * square + 0.1128358542919159
    small = small * square - 0.3761262595653534
    small = small * square + 0.12837916612625122
    small = small * x + x
    size = tl.abs(x)
    large = size * 0.0016597229987382889 - 0.02132043056190014
    large = large * size + 0.12787240743637085
    large = large * size + 0.9442275166511536
    large = large * size + 1.6121232509613037
    large = large * size + 0.0038543646223843098
    return tl.where(size < 1.0, small, libdevice.copysign(1.0 - tl.exp2(-large), x))


@triton.jit
def digamma(x):
    """Derivative of lgamma: reflection for negative x, recurrence up to 10, then the asymptotic series."""
    reflected = x < 0
    whole = libdevice.floor(x)
    pole = reflected & (x == whole)
    fraction = x - libdevice.trunc(x)
    pi = tl.full([], 3.14159265358979323846, tl.float64)
    angle = pi * tl.where(pole | (x == 0), 0.25, fraction).to(tl.float64)  # near a pole float32 loses too much
    correction = tl.where(reflected, 0 - pi / libdevice.tan(angle), 0.0).to(x.dtype)
    y = tl.where(reflected, 1.0 - x, x)
    shift = y * 0
    for _ in range(10):
        small = y < 10
        shift = tl.where(small, shift - 1.0 / tl.where(y == 0, 1.0, y), shift)
        y = tl.where(small, y + 1.0, y)
    z = 1.0 / (y * y)
    poly = 8.33333333333333333333e-2 * z - 2.10927960927960927961e-2
    poly = poly * z + 7.57575757575757575758e-3
    poly = poly * z - 4.16666666666666666667e-3
    poly = poly * z + 3.96825396825396825397e-3
    poly = poly * z - 8.33333333333333333333e-3
    series = z * (poly * z + 8.33333333333333333333e-2)
    result = shift + libdevice.log(y) - 0.5 / y - series + correction
    result = tl.where(x == 0, libdevice.copysign(x * 0 + float("inf"), x * -1.0), result)
    result = tl.where(pole, float("nan"), result)
    return tl.where(x == float("inf"), x, result).to(x.dtype)


# Reductions over one axis. Masked elements hold the identity of the kind.


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def _xor(a, b):
    return a ^ b


@triton.jit
def _argmax(value, index, other, other_index):
    better = (value > other) | ((value != value) & (other == other))
    tie = (value == other) | ((value != value) & (other != other))
    take = better | (tie & (index < other_index))
    return tl.where(take, value, other), tl.where(take, index, other_index)


@triton.jit
def _argmin(value, index, other, other_index):
    better = (value < other) | ((value != value) & (other == other))
    tie = (value == other) | ((value != value) & (other != other))
    take = better | (tie & (index < other_index))
    return tl.where(take, value, other), tl.where(take, index, other_index)


@triton.jit
def welford_merge(mean, m2, count, other_mean, other_m2, other_count):
    """Moments of two disjoint samples put together (Chan, Golub and LeVeque)."""
    total = count + other_count
    delta = other_mean - mean
    share = tl.where(total == 0, 0.0, other_count / total)
    return mean + delta * share, m2 + other_m2 + delta * delta * count * share, total


@triton.jit
def reduce_sum(value, axis: tl.constexpr):
    """Sum along an axis."""
    return tl.sum(value, axis)


@triton.jit
def _sum2(a, b, c, d):
    return a + c, b + d


@triton.jit
def _sum3(a, b, c, d, e, f):
    return a + d, b + e, c + f


@triton.jit
def reduce_sums2(a, b, axis: tl.constexpr):
    """Sums of two tensors along an axis in one step."""
    return tl.reduce((a, b), axis, _sum2)


@triton.jit
def reduce_sums3(a, b, c, axis: tl.constexpr):
    """Sums of three tensors along an axis in one step."""
    return tl.reduce((a, b, c), axis, _sum3)


@triton.jit
def reduce_prod(value, axis: tl.constexpr):
    """Product along an axis."""
    return tl.reduce(value, axis, _product)


@triton.jit
def reduce_max(value, axis: tl.constexpr):
    """Maximum along an axis; NaN wins."""
    return tl.reduce(value, axis, maximum)


@triton.jit
def reduce_min(value, axis: tl.constexpr):
    """Minimum along an axis; NaN wins."""
    return tl.reduce(value, axis, minimum)


@triton.jit
def reduce_xor(value, axis: tl.constexpr):
    """Exclusive or along an axis."""
    return tl.reduce(value, axis, _xor)


@triton.jit
def reduce_argmax(value, index, axis: tl.constexpr):
    """(maximum, its lowest index) along an axis; NaN wins."""
    return tl.reduce((value, index), axis, _argmax)


@triton.jit
def reduce_argmin(value, index, axis: tl.constexpr):
    """(minimum, its lowest index) along an axis; NaN wins."""
    return tl.reduce((value, index), axis, _argmin)


@triton.jit
def reduce_welford(mean, m2, count, axis: tl.constexpr):
    """(mean, m2, count) of all samples along an axis."""
    return tl.reduce((mean, m2, count), axis, welford_merge)


# Scans along one axis: `scan_*` gives the running results of a block, `join_*` puts what came before in front.


@triton.jit
def _sum(a, b):
    return a + b


@triton.jit
def join_sum(before, value):
    """Running sums behind `before`."""
    return before + value


@triton.jit
def join_prod(before, value):
    """Running products behind `before`."""
    return before * value


@triton.jit
def join_logaddexp(a, b):
    """log(exp(a) + exp(b)); infinities and NaN as in torch."""
    low = minimum(a, b)
    high = maximum(a, b)
    plain = (low != high) | (tl.abs(low) < float("inf"))
    return tl.where(plain, libdevice.log1p(libdevice.exp(low - high)) + high, a)


@triton.jit
def join_max(value, index, other, other_index):
    """The larger of two and its position: of equals the later one, a NaN over all but a later NaN."""
    later = other_index >= index
    over = (other > value) | ((other == value) & later)
    take = tl.where(other != other, (value == value) | later, over & (value == value))
    return tl.where(take, other, value), tl.where(take, other_index, index)


@triton.jit
def join_min(value, index, other, other_index):
    """As `join_max`, of the smaller one."""
    later = other_index >= index
    over = (other < value) | ((other == value) & later)
    take = tl.where(other != other, (value == value) | later, over & (value == value))
    return tl.where(take, other, value), tl.where(take, other_index, index)


@triton.jit
def scan_sum(value, axis: tl.constexpr):
    """Running sums along an axis."""
    return tl.associative_scan(value, axis, _sum)


@triton.jit
def scan_prod(value, axis: tl.constexpr):
    """Running products along an axis."""
    return tl.associative_scan(value, axis, _product)


@triton.jit
def scan_logaddexp(value, axis: tl.constexpr):
    """Running logarithms of sums of exponentials along an axis."""
    return tl.associative_scan(value, axis, join_logaddexp)


@triton.jit
def scan_max(value, index, axis: tl.constexpr):
    """Running maxima and their positions along an axis."""
    return tl.associative_scan((value, index), axis, join_max)


@triton.jit
def scan_min(value, index, axis: tl.constexpr):
    """Running minima and their positions along an axis."""
    return tl.associative_scan((value, index), axis, join_min)


@triton.jit
def all_logaddexp(value, axis: tl.constexpr):
    """Logarithm of the sum of exponentials along an axis."""
    return tl.reduce(value, axis, join_logaddexp)


@triton.jit
def all_max(value, index, axis: tl.constexpr):
    """The last result of `scan_max`."""
    return tl.reduce((value, index), axis, join_max)


@triton.jit
def all_min(value, index, axis: tl.constexpr):
    """The last result of `scan_min`."""
    return tl.reduce((value, index), axis, join_min)


@triton.jit
def step_argmax(value, index, other, other_index):
    """Elementwise step of an arg-maximum."""
    return _argmax(value, index, other, other_index)


@triton.jit
def step_argmin(value, index, other, other_index):
    """Elementwise step of an arg-minimum."""
    return _argmin(value, index, other, other_index)


@triton.jit
def later_argmax(value, index, other, other_index):
    """As `step_argmax` where `other_index` is known to lie behind `index`: equal values change nothing."""
    take = (other > value) | ((other != other) & (value == value))
    return tl.where(take, other, value), tl.where(take, other_index, index)


@triton.jit
def later_argmin(value, index, other, other_index):
    """As `step_argmin` where `other_index` is known to lie behind `index`: equal values change nothing."""
    take = (other < value) | ((other != other) & (value == value))
    return tl.where(take, other, value), tl.where(take, other_index, index)


@triton.jit
def step_welford(mean, m2, count, value, inside):
    """One more sample in each lane where `inside` holds."""
    grown = count + 1.0
    delta = value - mean
    moved = mean + delta / grown
    return (
        tl.where(inside, moved, mean),
        tl.where(inside, m2 + delta * (value - moved), m2),
        tl.where(inside, grown, count),
    )
