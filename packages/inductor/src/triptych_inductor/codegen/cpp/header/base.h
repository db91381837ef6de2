// Vectors of the loop kernels: one vector of every dtype has N lanes, so that dtypes of different width meet lane by
// lane. GCC vector extensions only (GCC 9+, clang 14+); no standard header is needed.
#define INL static inline __attribute__((always_inline, unused))
#define CV __builtin_convertvector
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define ISA_AVX512 1
#define N 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define ISA_AVX2 1
#define N 8
#else
#define N 4
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define HAS_SHUFFLE 1
#endif

struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };

typedef float f32 __attribute__((vector_size(4 * N)));
typedef int i32 __attribute__((vector_size(4 * N)));
typedef unsigned u32 __attribute__((vector_size(4 * N)));
typedef signed char i8 __attribute__((vector_size(N)));
typedef unsigned char u8 __attribute__((vector_size(N)));
typedef short i16 __attribute__((vector_size(2 * N)));
typedef unsigned short u16 __attribute__((vector_size(2 * N)));
typedef i32 mask;  // bool: 0 or -1 in each lane
// 64-bit types are two registers; the names ending in h are halves (N/2 lanes).
typedef double f64h __attribute__((vector_size(4 * N)));
typedef long i64h __attribute__((vector_size(4 * N)));
typedef unsigned long u64h __attribute__((vector_size(4 * N)));
typedef float f32h __attribute__((vector_size(2 * N)));
typedef int i32h __attribute__((vector_size(2 * N)));
struct f64 { f64h a, b; };
struct i64 { i64h a, b; };

#if N == 16
#define LO_LANES 0, 1, 2, 3, 4, 5, 6, 7
#define HI_LANES 8, 9, 10, 11, 12, 13, 14, 15
#define ALL_LANES LO_LANES, HI_LANES
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif N == 8
#define LO_LANES 0, 1, 2, 3
#define HI_LANES 4, 5, 6, 7
#define ALL_LANES LO_LANES, HI_LANES
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14
#else
#define LO_LANES 0, 1
#define HI_LANES 2, 3
#define ALL_LANES LO_LANES, HI_LANES
#define EVEN_LANES 0, 2, 4, 6
#endif

// Halves and their union.
#ifdef HAS_SHUFFLE
INL f32h lo(f32 x) { return __builtin_shufflevector(x, x, LO_LANES); }
INL f32h hi(f32 x) { return __builtin_shufflevector(x, x, HI_LANES); }
INL i32h lo(i32 x) { return __builtin_shufflevector(x, x, LO_LANES); }
INL i32h hi(i32 x) { return __builtin_shufflevector(x, x, HI_LANES); }
INL f32 join(f32h a, f32h b) { return __builtin_shufflevector(a, b, ALL_LANES); }
INL i32 join(i32h a, i32h b) { return __builtin_shufflevector(a, b, ALL_LANES); }
INL i32 narrow(i64h a, i64h b) { return __builtin_shufflevector((i32)a, (i32)b, EVEN_LANES); }
#else
template <class H, class V> INL H half_of(V x, int which) { H h[2]; __builtin_memcpy(h, &x, sizeof x); return h[which]; }
template <class V, class H> INL V join_of(H a, H b) { H h[2] = {a, b}; V v; __builtin_memcpy(&v, h, sizeof v); return v; }
INL f32h lo(f32 x) { return half_of<f32h>(x, 0); }
INL f32h hi(f32 x) { return half_of<f32h>(x, 1); }
INL i32h lo(i32 x) { return half_of<i32h>(x, 0); }
INL i32h hi(i32 x) { return half_of<i32h>(x, 1); }
INL f32 join(f32h a, f32h b) { return join_of<f32>(a, b); }
INL i32 join(i32h a, i32h b) { return join_of<i32>(a, b); }
INL i32 narrow(i64h a, i64h b) { return join(CV(a, i32h), CV(b, i32h)); }
#endif
INL i64 widen(i32 x) { return {CV(lo(x), i64h), CV(hi(x), i64h)}; }
INL i32 narrow(i64 x) { return narrow(x.a, x.b); }

// Arithmetic on pairs, so that bodies write a + b for every dtype.
#define PAIR_OP(V, op) INL V operator op(V x, V y) { return {x.a op y.a, x.b op y.b}; }
PAIR_OP(f64, +) PAIR_OP(f64, -) PAIR_OP(f64, *) PAIR_OP(f64, /)
PAIR_OP(i64, +) PAIR_OP(i64, -) PAIR_OP(i64, *) PAIR_OP(i64, &) PAIR_OP(i64, |) PAIR_OP(i64, ^)
PAIR_OP(i64, <<) PAIR_OP(i64, >>)
INL f64 operator-(f64 x) { return {-x.a, -x.b}; }
INL i64 operator-(i64 x) { return {-x.a, -x.b}; }
INL i64 operator~(i64 x) { return {~x.a, ~x.b}; }

// One number in every lane.
INL f32 splat(float x) { return x - (f32){}; }
INL i32 splat(int x) { return x - (i32){}; }
INL i8 splat(signed char x) { return x - (i8){}; }
INL u8 splat(unsigned char x) { return x - (u8){}; }
INL i16 splat(short x) { return x - (i16){}; }
INL f64 splat(double x) { return {x - (f64h){}, x - (f64h){}}; }
INL i64 splat(long x) { return {x - (i64h){}, x - (i64h){}}; }
INL mask splat(bool x) { return -(int)x - (mask){}; }

// Choice. Comparisons of every dtype give `mask`.
INL f32 sel(mask m, f32 x, f32 y) { return m ? x : y; }
INL i32 sel(mask m, i32 x, i32 y) { return m ? x : y; }
INL i8 sel(mask m, i8 x, i8 y) { return CV(m, i8) ? x : y; }
INL u8 sel(mask m, u8 x, u8 y) { return CV(m, i8) ? x : y; }
INL i16 sel(mask m, i16 x, i16 y) { return CV(m, i16) ? x : y; }
INL f64 sel(mask m, f64 x, f64 y) { i64 w = widen(m); return {w.a ? x.a : y.a, w.b ? x.b : y.b}; }
INL i64 sel(mask m, i64 x, i64 y) { i64 w = widen(m); return {w.a ? x.a : y.a, w.b ? x.b : y.b}; }
#define COMPARE(name, op) \
  INL mask name(f32 x, f32 y) { return x op y; } \
  INL mask name(i32 x, i32 y) { return x op y; } \
  INL mask name(i8 x, i8 y) { return CV(x op y, mask); } \
  INL mask name(u8 x, u8 y) { return CV(x op y, mask); } \
  INL mask name(i16 x, i16 y) { return CV(x op y, mask); } \
  INL mask name(f64 x, f64 y) { return narrow((i64h)(x.a op y.a), (i64h)(x.b op y.b)); } \
  INL mask name(i64 x, i64 y) { return narrow((i64h)(x.a op y.a), (i64h)(x.b op y.b)); }
COMPARE(eq, ==) COMPARE(ne, !=) COMPARE(lt, <) COMPARE(le, <=) COMPARE(gt, >) COMPARE(ge, >=)

#if ISA_AVX512
INL bool any(mask m) { return __builtin_ia32_ptestmd512(m, m, 0xffff) != 0; }
INL bool all(mask m) { return __builtin_ia32_ptestmd512(m, m, 0xffff) == 0xffff; }
#elif ISA_AVX2
INL bool any(mask m) { return __builtin_ia32_movmskps256((f32)m) != 0; }
INL bool all(mask m) { return __builtin_ia32_movmskps256((f32)m) == 0xff; }
#else
INL bool any(mask m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
INL bool all(mask m) { return (m[0] & m[1] & m[2] & m[3]) != 0; }
#endif
INL i32 lane_numbers() { return (i32){ALL_LANES}; }
INL mask first(long k) { return lane_numbers() < (int)k; }
INL i64 iota(long base, long step) { return widen(lane_numbers()) * splat(step) + splat(base); }
INL i32 iota(int base, int step) { return lane_numbers() * step + base; }

// float16 and bfloat16 are kept as float32 whose value the half type can hold; `round_*` makes it so.
#if ISA_AVX512 && !defined(__clang__)
typedef short v16hi __attribute__((vector_size(32)));
INL u32 wider(u16 x) { return (u32)__builtin_ia32_pmovzxwd512_mask((v16hi)x, (i32){}, (unsigned short)-1); }
INL u16 narrower(u32 x) { return (u16)__builtin_ia32_pmovdw512_mask((i32)x, (v16hi){}, (unsigned short)-1); }
#else
INL u32 wider(u16 x) { return CV(x, u32); }
INL u16 narrower(u32 x) { return CV(x, u16); }
#endif
INL f32 from_bits(u16 x) { return (f32)(wider(x) << 16); }
INL u32 rounded_bits(f32 x) {
  u32 b = (u32)x;
  u32 r = b + 0x7fffu + ((b >> 16) & 1u);
  return (x == x) ? r : (u32)(0x7fc00000u - (u32){});
}
INL f32 round_bf16(f32 x) { return (f32)(rounded_bits(x) & 0xffff0000u); }
INL u16 bits_bf16(f32 x) { return narrower(rounded_bits(x) >> 16); }
#if ISA_AVX512
INL f32 from_half(u16 x) { return __builtin_ia32_vcvtph2ps512_mask((v16hi)x, (f32){}, (unsigned short)-1, 4); }
INL u16 bits_f16(f32 x) { return (u16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (v16hi){}, (unsigned short)-1); }
#elif ISA_AVX2
typedef short v8hi __attribute__((vector_size(16)));
INL f32 from_half(u16 x) { return __builtin_ia32_vcvtph2ps256((v8hi)x); }
INL u16 bits_f16(f32 x) { return (u16)__builtin_ia32_vcvtps2ph256(x, 0); }
#else
INL f32 from_half(u16 x) {
  u32 h = CV(x, u32), sign = (h & 0x8000u) << 16, body = h & 0x7fffu;
  f32 normal = (f32)((body << 13) + (112u << 23));
  f32 tiny = CV((i32)body, f32) * 0x1p-24f;
  f32 special = (f32)((body << 13) | 0x7f800000u);
  f32 r = (i32)(body < 0x400u) ? tiny : ((i32)(body >= 0x7c00u) ? special : normal);
  return (f32)((u32)r | sign);
}
INL u16 bits_f16(f32 x) {
  u32 b = (u32)x, sign = (b >> 16) & 0x8000u, a = b & 0x7fffffffu;
  u32 tiny = (u32)((f32)a + 0.5f) - 0x3f000000u;  // adding 1/2 puts the rounding at 2^-24
  u32 normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
  u32 big = (i32)(a > 0x7f800000u) ? (u32)(0x7e00u | ((a >> 13) & 0x3ffu)) : (u32)(0x7c00u - (u32){});
  u32 r = (i32)(a < 0x38800000u) ? tiny : ((i32)(a >= 0x477ff000u) ? big : normal);
  return CV(r | sign, u16);
}
#endif
INL f32 round_f16(f32 x) { return from_half(bits_f16(x)); }

// Scalars as they lie in memory, and as lanes hold them.
INL float value_of(float x) { return x; }
INL double value_of(double x) { return x; }
INL float value_of(bf16 x) { return __builtin_bit_cast(float, (unsigned)x.bits << 16); }
INL float value_of(f16 x) { u16 v = {}; v[0] = x.bits; return from_half(v)[0]; }
INL bool value_of(bool x) { return x; }
#define PLAIN(T) INL T value_of(T x) { return x; }
PLAIN(signed char) PLAIN(unsigned char) PLAIN(short) PLAIN(int) PLAIN(long)

// Whole vectors from and to memory.
#define UNALIGNED(V) struct V##_at { V v; } __attribute__((packed, may_alias));
UNALIGNED(f32) UNALIGNED(i32) UNALIGNED(i8) UNALIGNED(u8) UNALIGNED(i16) UNALIGNED(u16) UNALIGNED(f64h) UNALIGNED(i64h)
#define PLAIN_MEMORY(T, V) \
  INL V load(const T *p) { return ((const V##_at *)p)->v; } \
  INL void store(T *p, V x) { ((V##_at *)p)->v = x; }
PLAIN_MEMORY(float, f32) PLAIN_MEMORY(int, i32) PLAIN_MEMORY(signed char, i8) PLAIN_MEMORY(unsigned char, u8)
PLAIN_MEMORY(short, i16)
INL f64 load(const double *p) { return {((const f64h_at *)p)->v, ((const f64h_at *)(p + N / 2))->v}; }
INL i64 load(const long *p) { return {((const i64h_at *)p)->v, ((const i64h_at *)(p + N / 2))->v}; }
INL void store(double *p, f64 x) { ((f64h_at *)p)->v = x.a; ((f64h_at *)(p + N / 2))->v = x.b; }
INL void store(long *p, i64 x) { ((i64h_at *)p)->v = x.a; ((i64h_at *)(p + N / 2))->v = x.b; }
INL f32 load(const bf16 *p) { return from_bits(((const u16_at *)p)->v); }
INL f32 load(const f16 *p) { return from_half(((const u16_at *)p)->v); }
INL void store(bf16 *p, f32 x) { ((u16_at *)p)->v = bits_bf16(x); }
INL void store(f16 *p, f32 x) { ((u16_at *)p)->v = bits_f16(x); }
INL mask load(const bool *p) { return CV(((const i8_at *)p)->v, mask) != 0; }
INL void store(bool *p, mask x) { ((i8_at *)p)->v = CV(x, i8) & 1; }

// The first k lanes; the others are zero when loaded and left alone when stored.
template <class T> using vector_of = decltype(load((const T *)0));
#if ISA_AVX512
INL f32 load(const float *p, long k) { return __builtin_ia32_loadups512_mask(p, (f32){}, (1u << k) - 1); }
INL void store(float *p, f32 x, long k) { __builtin_ia32_storeups512_mask(p, x, (1u << k) - 1); }
#endif
template <class T> INL vector_of<T> load(const T *p, long k) {
  T t[N] = {};
  for (long l = 0; l < k; l++) t[l] = p[l];
  return load(t);
}
template <class T> INL void store(T *p, vector_of<T> x, long k) {
  T t[N];
  store(t, x);
  for (long l = 0; l < k; l++) p[l] = t[l];
}
// Lanes `step` elements apart.
template <class T> INL vector_of<T> load_step(const T *p, long step, long k) {
  T t[N] = {};
  for (long l = 0; l < k; l++) t[l] = p[l * step];
  return load(t);
}
template <class T> INL vector_of<T> load_step(const T *p, long step) {
  T t[N];
#pragma GCC unroll 16
  for (long l = 0; l < N; l++) t[l] = p[l * step];
  return load(t);
}
template <class T> INL void store_step(T *p, long step, vector_of<T> x, long k) {
  T t[N];
  store(t, x);
  for (long l = 0; l < k; l++) p[l * step] = t[l];
}
// Lanes where the mask holds.
template <class T> INL vector_of<T> load_where(const T *p, long step, mask m) {
  if (step == 1 && all(m)) return load(p);
  T t[N] = {};
  for (long l = 0; l < N; l++) if (m[l]) t[l] = p[l * step];
  return load(t);
}
