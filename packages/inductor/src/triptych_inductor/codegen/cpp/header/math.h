// Exponentials, logarithms and what is made of them. Method: argument reduction after Cody and Waite, then minimax
// polynomials (fitted by iteratively reweighted least squares). At most 2.5 ulp in float32, 4 in double.

template <class V> INL V horner(V, V c) { return c; }
template <class V, class... R> INL V horner(V x, V c, R... rest) { return fma(horner(x, rest...), x, c); }
#define S(c) splat(c)

// x * 2^n for integral n, also where 2^n alone is no normal number.
#if ISA_AVX512 && !defined(__clang__)
INL f32 scale(f32 x, f32 n) { return __builtin_ia32_scalefps512_mask(x, n, x, (unsigned short)-1, 4); }
INL f64h scale(f64h x, f64h n) { return __builtin_ia32_scalefpd512_mask(x, n, x, (unsigned char)-1, 4); }
#else
INL f32 scale(f32 x, f32 n) {
  i32 k = CV(n, i32), h = k >> 1;
  return x * (f32)((h + 127) << 23) * (f32)((k - h + 127) << 23);
}
INL f64h scale(f64h x, f64h n) {
  i64h k = (i64h)(n + 0x1.8p52) - (i64h)((f64h){} + 0x1.8p52), h = k >> 1;
  return x * (f64h)((h + 1023) << 52) * (f64h)((k - h + 1023) << 52);
}
#endif
INL f64 scale(f64 x, f64 n) { return {scale(x.a, n.a), scale(x.b, n.b)}; }

// exp(x) = 2^n exp(r), |r| <= ln(2)/2; `exp_parts` gives r and n.
INL f32 exp_parts(f32 x, f32 &n) {
  n = round_even(x * S(0x1.715476p0f));
  return fma(n, S(0x1.bd0106p-13f), fma(n, S(-0.693359375f), x));
}
INL f64 exp_parts(f64 x, f64 &n) {
  n = round_even(x * S(0x1.71547652b82fep0));
  return fma(n, S(-0x1.a39ef35793c76p-33), fma(n, S(-0x1.62e42feep-1), x));
}
INL f32 exp_of_small(f32 r) {  // exp(r)
  f32 p = horner(r, S(0x1.fffffcp-2f), S(0x1.555490p-3f), S(0x1.5558f4p-5f), S(0x1.123a6cp-7f), S(0x1.6a234ep-10f));
  return fma(r * r, p, r) + S(1.0f);
}
INL f64 expm1_of_small(f64 r) {
  f64 p = horner(r, S(0x1.5555555555559p-3), S(0x1.5555555555548p-5), S(0x1.111111110f7b5p-7), S(0x1.6c16c16c1d1c3p-10),
                 S(0x1.a01a01af8e441p-13), S(0x1.a01a01817cb58p-16), S(0x1.71ddf90eb7edbp-19), S(0x1.27e52e56a233ap-22),
                 S(0x1.af5da4734de7fp-26), S(0x1.1ef087061b393p-29));
  return fma(r * r, fma(p, r, S(0.5)), r);
}
INL f32 expm1_of_small(f32 r) {
  f32 p = horner(r, S(0x1.5554b6p-3f), S(0x1.5555bap-5f), S(0x1.1223eep-7f), S(0x1.6c5584p-10f));
  return fma(r * r, fma(p, r, S(0.5f)), r);
}
// The smaller or the larger of a limit and x; NaN stays.
#if ISA_AVX512 && !defined(__clang__)
INL f32 at_most(f32 c, f32 x) { return __builtin_ia32_minps512_mask(c, x, x, (unsigned short)-1, 4); }
INL f32 at_least(f32 c, f32 x) { return __builtin_ia32_maxps512_mask(c, x, x, (unsigned short)-1, 4); }
#elif ISA_AVX2 && !defined(__clang__)
INL f32 at_most(f32 c, f32 x) { return __builtin_ia32_minps256(c, x); }
INL f32 at_least(f32 c, f32 x) { return __builtin_ia32_maxps256(c, x); }
#else
INL f32 at_most(f32 c, f32 x) { return sel(gt(x, c), c, x); }
INL f32 at_least(f32 c, f32 x) { return sel(lt(x, c), c, x); }
#endif
INL f64 at_most(f64 c, f64 x) { return sel(gt(x, c), c, x); }
INL f64 at_least(f64 c, f64 x) { return sel(lt(x, c), c, x); }
template <class V> INL V clamp(V x, V low, V high) { return at_least(low, at_most(high, x)); }
INL f32 exp(f32 x) {
  f32 n, r = exp_parts(clamp(x, S(-104.0f), S(89.0f)), n);
  return scale(exp_of_small(r), n);
}
INL f64 exp(f64 x) {
  f64 n, r = exp_parts(clamp(x, S(-746.0), S(710.0)), n);
  return scale(expm1_of_small(r) + S(1.0), n);
}
INL f32 exp2(f32 x) {
  f32 y = clamp(x, S(-151.0f), S(129.0f)), n = round_even(y), r = y - n;
  f32 p = horner(r, S(0x1.ebfbdcp-3f), S(0x1.c6af88p-5f), S(0x1.3b2e10p-7f), S(0x1.5f049cp-10f), S(0x1.414df0p-13f));
  return scale(fma(r, fma(r, p, S(0x1.62e430p-1f)), S(1.0f)), n);
}
INL f32 expm1(f32 x) {
  f32 n, r = exp_parts(clamp(x, S(-18.0f), S(89.0f)), n), p = expm1_of_small(r);
  f32 half = scale(S(0.5f), n);  // half of 2^n stays finite for n = 128
  f32 y = fma(half, p, half - S(0.5f)) * S(2.0f);
  return copysign(sel(lt(abs(x), S(0.25f)), p, y), x);
}
INL f64 expm1(f64 x) {
  f64 n, r = exp_parts(clamp(x, S(-40.0), S(710.0)), n), p = expm1_of_small(r);
  f64 half = scale(S(0.5), n);
  f64 y = fma(half, p, half - S(0.5)) * S(2.0);
  return copysign(sel(lt(abs(x), S(0.25)), p, y), x);
}

// log(x) = e ln(2) + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2).
INL f32 log_parts(f32 x, f32 &e) {
  mask tiny = lt(x, S(0x1p-126f));
  i32 b = (i32)sel(tiny, x * S(0x1p23f), x) - 0x3f3504f3;
  e = CV(b >> 23, f32) - sel(tiny, S(23.0f), f32{});
  return (f32)((b & 0x7fffff) + 0x3f3504f3) - S(1.0f);
}
INL f64h log_parts_half(f64h x, f64h &e) {
  i64h tiny = x < 0x1p-1022;
  i64h b = (i64h)(tiny ? x * 0x1p52 : x) - 0x3fe6a09e667f3bcdl;
  i64h k = (b >> 52) + (tiny & -52l);
  e = (f64h)(k + (i64h)((f64h){} + 0x1.8p52)) - 0x1.8p52;  // integers to double without a conversion
  return (f64h)((b & 0xfffffffffffffl) + 0x3fe6a09e667f3bcdl) - 1.0;
}
INL f64 log_parts(f64 x, f64 &e) { return {log_parts_half(x.a, e.a), log_parts_half(x.b, e.b)}; }
INL f32 log_cubic(f32 f) {  // (log(1 + f) - f + f^2/2) / f^2
  return f * horner(f, S(0x1.555554p-2f), S(-0x1.000228p-2f), S(0x1.99a008p-3f), S(-0x1.547242p-3f), S(0x1.22da20p-3f),
                    S(-0x1.0d8558p-3f), S(0x1.055b5ep-3f), S(-0x1.38b4ecp-4f));
}
INL f32 log_of_parts(f32 f, f32 e, f32 correction) {
  f32 q = f * f, y = fma(q, log_cubic(f), fma(e, S(-2.12194440e-4f), correction));
  y = fma(q, S(-0.5f), y);
  return fma(e, S(0.693359375f), f + y);
}
INL f64 log_of_parts(f64 f, f64 e, f64 correction) {
  f64 s = f / (S(2.0) + f), z = s * s, h = S(0.5) * f * f;
  f64 r = z * horner(z, S(0x1.5555555555592p-1), S(0x1.999999997fd42p-2), S(0x1.24924941f811cp-2), S(0x1.c71c52036fa34p-3),
                     S(0x1.7466402edc30fp-3), S(0x1.39a1984bfc009p-3), S(0x1.2f06cdb399189p-3));
  f64 low = fma(e, S(0x1.a39ef35793c76p-33), correction);
  return fma(e, S(0x1.62e42feep-1), f - (h - fma(s, h + r, low)));
}
template <class V> INL V log_limits(V x, V y, V infinity) {  // log at 0, below 0, infinity and NaN
  y = sel(eq(x, infinity) | ne(x, x), x, y);
  return sel(lt(x, V{}), infinity - infinity, sel(eq(x, V{}), -infinity, y));
}
INL f32 log(f32 x) {
  f32 e, f = log_parts(x, e);
  return log_limits(x, log_of_parts(f, e, f32{}), S(__builtin_inff()));
}
INL f64 log(f64 x) {
  f64 e, f = log_parts(x, e);
  return log_limits(x, log_of_parts(f, e, f64{}), S(__builtin_inf()));
}
template <class V> INL V log1p_of(V x, V one, V infinity) {
  V u = one + x, e, f = log_parts(u, e);
  V lost = sel(ge(x, one), x - u + one, x - (u - one));  // what the rounding of 1 + x lost
  V y = log_of_parts(f, e, sel(lt(u, infinity), lost / u, V{}));
  y = log_limits(u, y, infinity);
  return sel(eq(u, one), x, y);
}
INL f32 log1p(f32 x) { return log1p_of(x, S(1.0f), S(__builtin_inff())); }
INL f64 log1p(f64 x) { return log1p_of(x, S(1.0), S(__builtin_inf())); }
INL f32 log_in_base(f32 x, f32 e_high, f32 e_low, f32 scale_high, f32 scale_low) {
  f32 e, f = log_parts(x, e), q = f * f, c = fma(q, log_cubic(f), q * S(-0.5f)), m = f + c;
  f32 low = fma(m, scale_low, (f - m + c) * scale_high);
  return log_limits(x, fma(e, e_high, fma(m, scale_high, fma(e, e_low, low))), S(__builtin_inff()));
}
INL f32 log2(f32 x) { return log_in_base(x, S(1.0f), f32{}, S(0x1.715476p0f), S(0x1.4ae0c0p-26f)); }
INL f32 log10(f32 x) { return log_in_base(x, S(0x1.3440p-2f), S(0x1.3509f8p-18f), S(0x1.bcb7b2p-2f), S(-0x1.5b235ep-27f)); }

INL f32 tanh(f32 x) {
  f32 a = abs(x), s = x * x, n;
  f32 p = horner(s, S(-0x1.555532p-2f), S(0x1.11070ap-3f), S(-0x1.b83856p-5f), S(0x1.520b30p-6f), S(-0x1.75624cp-8f));
  f32 small = fma(s * x, p, x);
  f32 r = exp_parts(at_most(S(20.0f), a + a), n);
  f32 large = S(1.0f) - S(2.0f) / (scale(exp_of_small(r), n) + S(1.0f));
  return sel(ne(x, x), x, copysign(sel(lt(a, S(0.625f)), small, large), x));
}
INL f64 tanh(f64 x) {
  f64 a = abs(x), t = expm1(sel(gt(a, S(22.0)), S(44.0), a + a));
  return sel(ne(x, x), x, copysign(t / (t + S(2.0)), x));
}
template <class V> INL V sigmoid_of(V x, V one) {
  V e = exp(-abs(x));
  return sel(lt(x, V{}), e, one) / (one + e);
}
INL f32 sigmoid(f32 x) { return sigmoid_of(x, S(1.0f)); }
INL f64 sigmoid(f64 x) { return sigmoid_of(x, S(1.0)); }

// erf(t) = t * P(t * t) up to 3.92, from where on it is 1: a Chebyshev fit in u = 2 t^2 / 3.92^2 - 1, to 2.3e-7 relatively.
INL f32 erf(f32 x) {
  f32 t = at_most(S(0x1.f5c29p+1f), abs(x)), u = fma(t * t, S(0x1.0a8e3cp-3f), S(-1.0f));
  f32 p = horner(u, S(0x1.7164fep-2f), S(-0x1.70dcc6p-3f), S(0x1.129b0cp-3f), S(-0x1.bf3418p-4f), S(0x1.73118ep-4f),
                     S(-0x1.2f1efap-4f), S(0x1.de96f4p-5f), S(-0x1.647edep-5f), S(0x1.e55106p-6f), S(-0x1.4427b6p-6f),
                     S(0x1.d56bfap-7f), S(-0x1.048732p-7f), S(0x1.e09b9cp-10f), S(-0x1.388762p-10f), S(0x1.1669cp-9f),
                     S(-0x1.d7dc26p-11f));
  return copysign(at_most(S(1.0f), t * p), x);
}
INL f32 reciprocal(f32 x) { return S(1.0f) / x; }
INL f64 reciprocal(f64 x) { return S(1.0) / x; }
INL f32 rsqrt(f32 x) { return S(1.0f) / sqrt(x); }
INL f64 rsqrt(f64 x) { return S(1.0) / sqrt(x); }
INL f32 frac(f32 x) { return x - trunc(x); }
INL f64 frac(f64 x) { return x - trunc(x); }

// pow in float32 through logarithms in double; double through the C library.
INL mask odd_integer(f32 y) {
  f32 h = y * S(0.5f);
  return eq(trunc(y), y) & ne(trunc(h), h);
}
INL f32 pow(f32 x, f32 y) {
  f64 e, f = log_parts(to_f64(abs(x)), e);
  f64 n, r = exp_parts(clamp(log_of_parts(f, e, f64{}) * to_f64(y), S(-200.0), S(200.0)), n);
  f32 z = to_f32(scale(expm1_of_small(r) + S(1.0), n)), infinity = S(__builtin_inff()), a = abs(x), one = S(1.0f);
  mask zero_base = eq(a, f32{}), inf_base = eq(a, infinity), up = gt(y, f32{});
  z = sel(zero_base | inf_base, sel(zero_base ^ up, infinity, f32{}), z);
  z = sel(eq(abs(y), infinity), sel(eq(a, one), one, sel(gt(a, one) ^ up, f32{}, infinity)), z);
  mask negative = signbit(x), finite = lt(abs(y), infinity), odd = odd_integer(y) & finite;
  z = sel(negative & odd, -z, z);
  z = sel(lt(x, f32{}) & gt(x, -infinity) & finite & ne(trunc(y), y), infinity - infinity, z);
  z = sel(ne(x, x) | ne(y, y), x + y, z);
  return sel(eq(y, f32{}) | eq(x, one), one, z);
}
