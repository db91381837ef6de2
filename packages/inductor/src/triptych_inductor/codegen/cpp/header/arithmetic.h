// Elementary operations in every dtype: rounding, signs, extrema, division, powers of integers, shifts, conversions.

// x * y + z with one rounding where the machine can; kernels are built with -ffp-contract=off so that nothing else
// fuses.
#if ISA_AVX512 && !defined(__clang__)
INL f32 fma(f32 x, f32 y, f32 z) { return __builtin_ia32_vfmaddps512_mask(x, y, z, (unsigned short)-1, 4); }
INL f64h fma(f64h x, f64h y, f64h z) { return __builtin_ia32_vfmaddpd512_mask(x, y, z, (unsigned char)-1, 4); }
INL f32 sqrt(f32 x) { return __builtin_ia32_sqrtps512_mask(x, x, (unsigned short)-1, 4); }
INL f64h sqrt(f64h x) { return __builtin_ia32_sqrtpd512_mask(x, x, (unsigned char)-1, 4); }
#define ROUNDING(name, mode, scalar) \
  INL f32 name(f32 x) { return __builtin_ia32_rndscaleps_mask(x, mode, x, (unsigned short)-1, 4); } \
  INL f64h name(f64h x) { return __builtin_ia32_rndscalepd_mask(x, mode, x, (unsigned char)-1, 4); }
#elif ISA_AVX2 && !defined(__clang__)
INL f32 fma(f32 x, f32 y, f32 z) { return __builtin_ia32_vfmaddps256(x, y, z); }
INL f64h fma(f64h x, f64h y, f64h z) { return __builtin_ia32_vfmaddpd256(x, y, z); }
INL f32 sqrt(f32 x) { return __builtin_ia32_sqrtps256(x); }
INL f64h sqrt(f64h x) { return __builtin_ia32_sqrtpd256(x); }
#define ROUNDING(name, mode, scalar) \
  INL f32 name(f32 x) { return __builtin_ia32_roundps256(x, mode); } \
  INL f64h name(f64h x) { return __builtin_ia32_roundpd256(x, mode); }
#else
#if defined(__FMA__) || defined(__aarch64__)
INL f32 fma(f32 x, f32 y, f32 z) { for (int l = 0; l < N; l++) x[l] = __builtin_fmaf(x[l], y[l], z[l]); return x; }
INL f64h fma(f64h x, f64h y, f64h z) { for (int l = 0; l < N / 2; l++) x[l] = __builtin_fma(x[l], y[l], z[l]); return x; }
#else
INL f32 fma(f32 x, f32 y, f32 z) { return x * y + z; }
INL f64h fma(f64h x, f64h y, f64h z) { return x * y + z; }
#endif
INL f32 sqrt(f32 x) { for (int l = 0; l < N; l++) x[l] = __builtin_sqrtf(x[l]); return x; }
INL f64h sqrt(f64h x) { for (int l = 0; l < N / 2; l++) x[l] = __builtin_sqrt(x[l]); return x; }
#define ROUNDING(name, mode, scalar) \
  INL f32 name(f32 x) { for (int l = 0; l < N; l++) x[l] = __builtin_##scalar##f(x[l]); return x; } \
  INL f64h name(f64h x) { for (int l = 0; l < N / 2; l++) x[l] = __builtin_##scalar(x[l]); return x; }
#endif
ROUNDING(round_even, 8, rint) ROUNDING(floor, 9, floor) ROUNDING(ceil, 10, ceil) ROUNDING(trunc, 11, trunc)
#define BOTH(name) INL f64 name(f64 x) { return {name(x.a), name(x.b)}; }
BOTH(sqrt) BOTH(round_even) BOTH(floor) BOTH(ceil) BOTH(trunc)
INL f64 fma(f64 x, f64 y, f64 z) { return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b)}; }
template <class V> INL V fma(V x, V y, V z) { return x * y + z; }

// Signs, as bits.
INL f32 abs(f32 x) { return (f32)((i32)x & 0x7fffffff); }
INL f64h abs(f64h x) { return (f64h)((i64h)x & 0x7fffffffffffffffl); }
BOTH(abs)
INL f32 copysign(f32 x, f32 y) { return (f32)(((i32)x & 0x7fffffff) | ((i32)y & (int)0x80000000)); }
INL f64h copysign(f64h x, f64h y) {
  return (f64h)(((i64h)x & 0x7fffffffffffffffl) | ((i64h)y & (long)0x8000000000000000ul));
}
INL f64 copysign(f64 x, f64 y) { return {copysign(x.a, y.a), copysign(x.b, y.b)}; }
INL mask signbit(f32 x) { return (i32)x < 0; }
INL mask signbit(f64 x) { return narrow((i64h)((i64h)x.a < 0), (i64h)((i64h)x.b < 0)); }
INL u8 abs(u8 x) { return x; }
template <class V> INL V abs(V x) { return sel(lt(x, V{}), -x, x); }
template <class V> INL V sign_of(V x, V one) { return sel(gt(x, V{}), one, sel(lt(x, V{}), -one, V{})); }
INL f32 sign(f32 x) { return sign_of(x, splat(1.0f)); }
INL f64 sign(f64 x) { return sign_of(x, splat(1.0)); }
INL i8 sign(i8 x) { return sign_of(x, splat((signed char)1)); }
INL i16 sign(i16 x) { return sign_of(x, splat((short)1)); }
INL i32 sign(i32 x) { return sign_of(x, splat(1)); }
INL i64 sign(i64 x) { return sign_of(x, splat(1l)); }
INL u8 sign(u8 x) { return sel(gt(x, u8{}), splat((unsigned char)1), u8{}); }
template <class V> INL V negate(V x) { return -x; }

// Extrema pass NaN on.
template <class V> INL V maximum(V x, V y) { return sel(gt(x, y), x, y); }
template <class V> INL V minimum(V x, V y) { return sel(lt(x, y), x, y); }
INL f32 maximum(f32 x, f32 y) { return (x > y) | (x != x) ? x : y; }
INL f32 minimum(f32 x, f32 y) { return (x < y) | (x != x) ? x : y; }
INL f64 maximum(f64 x, f64 y) { return sel(gt(x, y) | ne(x, x), x, y); }
INL f64 minimum(f64 x, f64 y) { return sel(lt(x, y) | ne(x, x), x, y); }
template <class V> INL V relu(V x) { return sel(lt(x, V{}), V{}, x); }
template <class V> INL mask isnan(V x) { return ne(x, x); }
INL mask isinf(f32 x) { return eq(abs(x), splat(__builtin_inff())); }
INL mask isinf(f64 x) { return eq(abs(x), splat(__builtin_inf())); }
template <class V> INL mask nonzero(V x) { return ne(x, V{}); }

// Division of floating-point numbers, with torch's rules for signs and infinities.
INL f32 lanewise_fmod(f32 x, f32 y) { for (int l = 0; l < N; l++) x[l] = __builtin_fmodf(x[l], y[l]); return x; }
INL f64h lanewise_fmod(f64h x, f64h y) { for (int l = 0; l < N / 2; l++) x[l] = __builtin_fmod(x[l], y[l]); return x; }
INL f32 fmod(f32 x, f32 y) { return lanewise_fmod(x, y); }
INL f64 fmod(f64 x, f64 y) { return {lanewise_fmod(x.a, y.a), lanewise_fmod(x.b, y.b)}; }
template <class V> INL V remainder_float(V x, V y) {
  V r = fmod(x, y);
  return sel(ne(r, V{}) & (signbit(r) ^ signbit(y)), r + y, r);
}
INL f32 remainder(f32 x, f32 y) { return remainder_float(x, y); }
INL f64 remainder(f64 x, f64 y) { return remainder_float(x, y); }
template <class V> INL V floordiv_float(V x, V y, V half, V one) {
  V r = fmod(x, y), q = (x - r) / y;
  q = sel(ne(r, V{}) & (signbit(r) ^ signbit(y)), q - one, q);
  V f = floor(q);
  f = sel(gt(q - f, half), f + one, f);
  f = sel(ne(q, V{}), f, copysign(V{}, x / y));
  return sel(eq(y, V{}), x / y, f);
}
INL f32 floordiv(f32 x, f32 y) { return floordiv_float(x, y, splat(0.5f), splat(1.0f)); }
INL f64 floordiv(f64 x, f64 y) { return floordiv_float(x, y, splat(0.5), splat(1.0)); }

// Division of integers. A zero divisor in an active lane is reported through `bad`, as eager raises; here it divides by
// one. (the lowest number) / -1 wraps.
template <class T> INL T quotient(T x, T y) { return y == (T)-1 && (T)-1 < 0 ? (T)(0 - (unsigned long)x) : (T)(x / y); }
#define LANEWISE(V, T, count, expr) for (int l = 0; l < count; l++) { T p = x[l], q = y[l]; x[l] = (T)(expr); } return x;
#define INTEGER_DIVISION(V, T, count) \
  INL V divide_lanes(V x, V y) { LANEWISE(V, T, count, quotient<T>(p, q)) }
INTEGER_DIVISION(i8, signed char, N) INTEGER_DIVISION(u8, unsigned char, N) INTEGER_DIVISION(i16, short, N)
INTEGER_DIVISION(i32, int, N) INTEGER_DIVISION(i64h, long, N / 2)
INL i64 divide_lanes(i64 x, i64 y) { return {divide_lanes(x.a, y.a), divide_lanes(x.b, y.b)}; }
template <class V> INL V checked_divisor(V y, V one, mask active, int &bad) {
  mask zero = eq(y, V{});
  if (any(zero & active)) bad = 1;
  return sel(zero, one, y);
}
template <class V> INL V fmod(V x, V y) { return x - divide_lanes(x, y) * y; }
template <class V> INL V remainder(V x, V y) {
  V r = fmod(x, y);
  return sel(ne(r, V{}) & lt(r ^ y, V{}), r + y, r);
}
template <class V> INL V floordiv(V x, V y) {
  V q = divide_lanes(x, y), r = x - q * y;
  return sel(ne(r, V{}) & lt(r ^ y, V{}), q + ~V{}, q);
}

// Powers of integers by squaring; they wrap. Negative exponents: 1 / base rounded to zero.
template <class V> INL V integer_power(V base, V exponent, V one) {
  V b = base, e = sel(lt(exponent, V{}), V{}, exponent), result = one;
  while (any(nonzero(e))) {
    result = sel(nonzero(e & one), result * b, result);
    b = b * b;
    e = e >> one;
  }
  V inverse = sel(eq(base, one), one, sel(eq(base, ~V{}), sel(nonzero(exponent & one), ~V{}, one), V{}));
  return sel(lt(exponent, V{}), inverse, result);
}
INL i8 pow(i8 x, i8 y) { return integer_power(x, y, splat((signed char)1)); }
INL u8 pow(u8 x, u8 y) { return integer_power(x, y, splat((unsigned char)1)); }
INL i16 pow(i16 x, i16 y) { return integer_power(x, y, splat((short)1)); }
INL i32 pow(i32 x, i32 y) { return integer_power(x, y, splat(1)); }
INL i64 pow(i64 x, i64 y) { return integer_power(x, y, splat(1l)); }

// Shifts: by a negative or too large count, left gives 0 and right the sign.
#define SHIFTS(V, T, bits) \
  INL V shift_left(V x, V y) { \
    mask ok = ge(y, V{}) & lt(y, splat((T)bits)); \
    return sel(ok, x << sel(ok, y, V{}), V{}); \
  } \
  INL V shift_right(V x, V y) { \
    mask ok = ge(y, V{}) & lt(y, splat((T)(bits - ((T)-1 < 0)))); \
    return (T)-1 < 0 ? x >> sel(ok, y, splat((T)(bits - 1))) : sel(ok, x >> sel(ok, y, V{}), V{}); \
  }
SHIFTS(i8, signed char, 8) SHIFTS(u8, unsigned char, 8) SHIFTS(i16, short, 16) SHIFTS(i32, int, 32) SHIFTS(i64, long, 64)

// Conversions as Tensor.to makes them on this machine: to_<dtype>(value). Integers wrap; what no int32 can hold becomes
// the lowest one first.
INL f32 to_f32(f32 x) { return x; }
INL f32 to_f32(f64 x) { return join(CV(x.a, f32h), CV(x.b, f32h)); }
INL f32 to_f32(i32 x) { return CV(x, f32); }
INL f32 to_f32(i64 x) { return join(CV(x.a, f32h), CV(x.b, f32h)); }
INL f64 to_f64(f32 x) { return {CV(lo(x), f64h), CV(hi(x), f64h)}; }
INL f64 to_f64(f64 x) { return x; }
INL f64 to_f64(i32 x) { return {CV(lo(x), f64h), CV(hi(x), f64h)}; }
INL f64 to_f64(i64 x) { return {CV(x.a, f64h), CV(x.b, f64h)}; }
INL i32 to_i32(i32 x) { return x; }
INL i32 to_i32(i64 x) { return narrow(x); }
INL i32 to_i32(i8 x) { return CV(x, i32); }
INL i32 to_i32(u8 x) { return CV(x, i32); }
INL i32 to_i32(i16 x) { return CV(x, i32); }
INL i64 to_i64(i64 x) { return x; }
INL i64 to_i64(i32 x) { return widen(x); }
#if ISA_AVX512 && !defined(__clang__)
INL i32 to_i32(f32 x) { return __builtin_ia32_cvttps2dq512_mask(x, (i32){}, (unsigned short)-1, 4); }
typedef long long v8di __attribute__((vector_size(64)));
INL i64h truncated(f64h x) { return (i64h)__builtin_ia32_cvttpd2qq512_mask(x, (v8di){}, (unsigned char)-1, 4); }
#else
INL int truncated_lane(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int)x : (int)0x80000000; }
INL long truncated_lane(double x) { return x >= -0x1p63 && x < 0x1p63 ? (long)x : (long)0x8000000000000000ul; }
INL i32 to_i32(f32 x) { i32 r; for (int l = 0; l < N; l++) r[l] = truncated_lane(x[l]); return r; }
INL i64h truncated(f64h x) { i64h r; for (int l = 0; l < N / 2; l++) r[l] = truncated_lane(x[l]); return r; }
#endif
INL i64 to_i64(f64 x) { return {truncated(x.a), truncated(x.b)}; }
INL i64 to_i64(f32 x) { return to_i64(to_f64(x)); }
INL i32 to_i32(f64 x) {
  mask fits = gt(x, splat(-2147483649.0)) & lt(x, splat(2147483648.0));
  return sel(fits, narrow(to_i64(x)), splat((int)0x80000000));
}
template <class V> INL f32 to_f32(V x) { return CV(to_i32(x), f32); }
template <class V> INL f64 to_f64(V x) { return to_f64(to_i32(x)); }
template <class V> INL i64 to_i64(V x) { return widen(to_i32(x)); }
template <class V> INL i8 to_i8(V x) { return CV(to_i32(x), i8); }
template <class V> INL i16 to_i16(V x) { return CV(to_i32(x), i16); }
template <class V> INL u8 to_u8(V x) { return CV(to_i32(x), u8); }
INL u8 to_u8(f64 x) { return to_u8(to_i64(x)); }
