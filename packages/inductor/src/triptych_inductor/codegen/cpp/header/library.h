// Rarer functions. Sine and cosine of ordinary arguments are vectors; the rest is a loop over lanes that calls the C
// library in double precision, rounded once to float32.

// Sine of x + quarter * pi/2, |x| <= 5000: reduction by a four-part pi/2 after Cody and Waite.
INL f32 sine_of_quarter(f32 x, int quarter) {
  f32 k = round_even(x * S(0x1.45f306p-1f));
  f32 r = fma(k, S(-1.5703125f), x);
  r = fma(k, S(-4.837512969970703125e-4f), r);
  r = fma(k, S(-0x1.4442d2p-24f), r);
  r = fma(k, S(0x1.ee59dap-50f), r);
  f32 s = r * r;
  f32 p = fma(s * r, horner(s, S(-0x1.555556p-3f), S(0x1.111108p-7f), S(-0x1.a00f74p-13f), S(0x1.6ccf66p-19f)), r);
  f32 q = horner(s, S(0x1.555556p-5f), S(-0x1.6c16b8p-10f), S(0x1.a010d6p-16f), S(-0x1.241ca8p-22f));
  q = fma(s * s, q, fma(s, S(-0.5f), S(1.0f)));
  i32 n = to_i32(k) + quarter;
  f32 y = sel(nonzero(n & 1), q, p);
  return sel(nonzero(n & 2), -y, y);
}
#define LANES(count, expr) for (int l = 0; l < count; l++) { double p = x[l]; x[l] = expr; } return x;
INL f32 sine(f32 x, f32 y, double (*exact)(double)) {  // y, except for lanes too large for the reduction
  mask large = ~lt(abs(x), S(5000.0f));
  if (any(large))
    for (int l = 0; l < N; l++) if (large[l]) y[l] = (float)exact(x[l]);
  return y;
}
static double exact_sin(double x) { return __builtin_sin(x); }
static double exact_cos(double x) { return __builtin_cos(x); }
INL f32 sin(f32 x) { return sine(x, sel(eq(x, f32{}), x, sine_of_quarter(x, 0)), exact_sin); }
INL f32 cos(f32 x) { return sine(x, sine_of_quarter(x, 1), exact_cos); }

// The inverse of erf: the rational start of Giles, then two steps of Newton.
static double inverse_erf(double x) {
  if (!(x > -1.0 && x < 1.0)) return x == 1.0 || x == -1.0 ? x * __builtin_inf() : __builtin_nan("");
  double w = -__builtin_log1p(-x * x), y;
  if (w < 5.0) {
    w -= 2.5;
    y = 1.50140941 + w * (0.246640727 + w * (-0.00417768164 + w * (-0.00125372503 + w * 0.00021858087)));
  } else {
    w = __builtin_sqrt(w) - 3.0;
    y = 0.00573950773 + w * (-0.00367342844 + w * (0.00134934322 + w * (0.000100950558 - w * 0.000200214257)));
    y = 2.83297682 + w * (1.00167406 + w * (0.00943887047 + w * (-0.0076224613 + w * y)));
  }
  y *= x;
  double beyond = 1.0 - __builtin_fabs(x);
  if (w > 1.0 && beyond < 1e-6) {  // further out the asymptotic form of erfc is nearer
    y = __builtin_sqrt(-__builtin_log(beyond));
    y = __builtin_copysign(__builtin_sqrt(-__builtin_log(beyond * 1.7724538509055160 * y)), x);
  }
  for (int step = 0; step < 3; step++) {
    double a = __builtin_fabs(x), tail = (1.0 - a) - __builtin_erfc(__builtin_fabs(y));
    double error = a > 0.5 ? (x < 0.0 ? -tail : tail) : __builtin_erf(y) - x;
    y -= error / (1.1283791670955126 * __builtin_exp(-y * y));
  }
  return y;
}
// Digamma: reflection below zero, recurrence up to 10, then the asymptotic series.
static double digamma_of(double x) {
  if (x == 0.0) return __builtin_copysign(__builtin_inf(), -x);
  double shift = 0.0;
  if (x < 0.0) {
    if (x == __builtin_floor(x)) return __builtin_nan("");
    double part = x - __builtin_trunc(x);
    return digamma_of(1.0 - x) - 3.14159265358979323846 / __builtin_tan(3.14159265358979323846 * part);
  }
  for (; x < 10.0; x += 1.0) shift -= 1.0 / x;
  double z = 1.0 / (x * x);
  double series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return shift + __builtin_log(x) - 0.5 / x - (x < __builtin_inf() ? series : 0.0);
}

#define BY_LIBRARY(name, function) \
  INL f64h name##_lanes(f64h x) { LANES(N / 2, function(p)) } \
  INL f64 name(f64 x) { return {name##_lanes(x.a), name##_lanes(x.b)}; }
#define BY_LIBRARY_BOTH(name, function) \
  INL f32 name(f32 x) { LANES(N, (float)function(p)) } \
  BY_LIBRARY(name, function)
BY_LIBRARY(sin, __builtin_sin) BY_LIBRARY(cos, __builtin_cos) BY_LIBRARY(erf, __builtin_erf)
BY_LIBRARY(exp2, __builtin_exp2) BY_LIBRARY(log2, __builtin_log2) BY_LIBRARY(log10, __builtin_log10)
BY_LIBRARY_BOTH(tan, __builtin_tan) BY_LIBRARY_BOTH(asin, __builtin_asin) BY_LIBRARY_BOTH(acos, __builtin_acos)
BY_LIBRARY_BOTH(atan, __builtin_atan) BY_LIBRARY_BOTH(sinh, __builtin_sinh) BY_LIBRARY_BOTH(cosh, __builtin_cosh)
BY_LIBRARY_BOTH(asinh, __builtin_asinh) BY_LIBRARY_BOTH(acosh, __builtin_acosh) BY_LIBRARY_BOTH(atanh, __builtin_atanh)
BY_LIBRARY_BOTH(erfc, __builtin_erfc) BY_LIBRARY_BOTH(lgamma, __builtin_lgamma)
BY_LIBRARY_BOTH(erfinv, inverse_erf) BY_LIBRARY_BOTH(digamma, digamma_of)

#define BINARY_LANES(V, T, count, name, function) \
  INL V name##_lanes(V x, V y) { for (int l = 0; l < count; l++) { T p = x[l], q = y[l]; x[l] = function(p, q); } return x; }
#define BINARY_BY_LIBRARY(name, T32, function32, function64) \
  BINARY_LANES(f32, T32, N, name, function32) BINARY_LANES(f64h, double, N / 2, name, function64) \
  INL f32 name(f32 x, f32 y) { return name##_lanes(x, y); } \
  INL f64 name(f64 x, f64 y) { return {name##_lanes(x.a, y.a), name##_lanes(x.b, y.b)}; }
BINARY_BY_LIBRARY(atan2, double, (float)__builtin_atan2, __builtin_atan2)
BINARY_BY_LIBRARY(hypot, double, (float)__builtin_hypot, __builtin_hypot)
BINARY_BY_LIBRARY(nextafter, float, __builtin_nextafterf, __builtin_nextafter)
BINARY_LANES(f64h, double, N / 2, pow, __builtin_pow)
INL f64 pow(f64 x, f64 y) { return {pow_lanes(x.a, y.a), pow_lanes(x.b, y.b)}; }
#define NEXT_HALF(name, bits_of, value_of_bits) \
  INL f32 name(f32 x, f32 y) { \
    i16 b = (i16)bits_of(x), zero = eq_zero(b); \
    i16 next = b + ((CV(lt(x, y), i16) ^ (b < 0)) ? splat((short)1) : splat((short)-1)); \
    i16 least = (CV(signbit(y), i16) & (short)0x8000) | (short)1; \
    f32 r = value_of_bits((u16)(zero ? least : next)); \
    return sel(ne(x, x) | ne(y, y), x + y, sel(eq(x, y), y, r)); \
  }
INL i16 eq_zero(i16 bits) { return (bits & (short)0x7fff) == 0; }
NEXT_HALF(nextafter_bf16, bits_bf16, from_bits) NEXT_HALF(nextafter_f16, bits_f16, from_half)
