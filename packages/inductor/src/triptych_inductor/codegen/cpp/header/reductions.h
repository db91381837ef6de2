// Accumulators of reductions. A loop calls `step` for each vector (with k: its first k lanes), now and then `flush`; at
// the end accumulators are merged, and `across` brings the lanes together and leaves the result in all of them.

#define METHOD inline __attribute__((always_inline))
template <class V> struct Scalar_;
template <> struct Scalar_<f32> { typedef float type; };
template <> struct Scalar_<f64> { typedef double type; };
template <> struct Scalar_<i8> { typedef signed char type; };
template <> struct Scalar_<u8> { typedef unsigned char type; };
template <> struct Scalar_<i16> { typedef short type; };
template <> struct Scalar_<i32> { typedef int type; };
template <> struct Scalar_<i64> { typedef long type; };
template <class V> using scalar_of = typename Scalar_<V>::type;

// The lowest and the highest number of a dtype.
template <class T> struct Limits {
  static constexpr T bits = (T)((T)1 << (sizeof(T) * 8 - 1));
  static constexpr T low = (T)-1 < 0 ? bits : 0, high = (T)-1 < 0 ? (T)~bits : (T)-1;
};
template <> struct Limits<float> { static constexpr float low = -__builtin_inff(), high = __builtin_inff(); };
template <> struct Limits<double> { static constexpr double low = -__builtin_inf(), high = __builtin_inf(); };

// Lanes rotated by `by` places.
#if defined(__clang__)
template <int by, class V> INL V rotated(V v) { V r; for (int l = 0; l < N; l++) r[l] = v[(l + by) % N]; return r; }
template <int by, class V> INL V rotated_half(V v) { V r; for (int l = 0; l < N / 2; l++) r[l] = v[(l + by) % (N / 2)]; return r; }
#else
template <int by, class V> INL V rotated(V v) { return __builtin_shuffle(v, (lane_numbers() + by) & (N - 1)); }
template <int by, class V> INL V rotated_half(V v) {
  return __builtin_shuffle(v, (CV(lo(lane_numbers()), i64h) + by) & (N / 2 - 1));
}
#endif
template <int by, class V> INL V rotated_narrow(V v) {
  scalar_of<V> t[2 * N];
  store(t, v);
  store(t + N, v);
  return load((const scalar_of<V> *)t + by);
}
template <int by> INL i8 rotated(i8 v) { return rotated_narrow<by>(v); }
template <int by> INL u8 rotated(u8 v) { return rotated_narrow<by>(v); }
template <int by> INL i16 rotated(i16 v) { return rotated_narrow<by>(v); }
#define ROTATED_PAIR(V) \
  template <int by> INL V rotated(V v) { \
    if constexpr (by == N / 2) return {v.b, v.a}; \
    else return {rotated_half<by>(v.a), rotated_half<by>(v.b)}; /* after the halves were brought together */ \
  }
ROTATED_PAIR(f64) ROTATED_PAIR(i64)

// All lanes brought together, the result in each.
template <class V, class F> INL V fold_lanes(V v, F combine) {
  if constexpr (N > 8) v = combine(v, rotated<(N > 8 ? 8 : 1)>(v));
  if constexpr (N > 4) v = combine(v, rotated<(N > 4 ? 4 : 1)>(v));
  v = combine(v, rotated<2>(v));
  return combine(v, rotated<1>(v));
}
template <class V> INL V plus(V x, V y) { return x + y; }
// The sum of all lanes, added up in double.
// (Calls, not copies: they run once a row, and a unit compiles them once.)
static __attribute__((noinline, unused)) double lane_sum(f64 x) { return fold_lanes(x, plus<f64>).a[0]; }
static __attribute__((noinline, unused)) double lane_sum(f32 x) { return fold_lanes(to_f64(x), plus<f64>).a[0]; }

#define SIMPLE_REDUCTION(name, identity, expr) \
  template <class V> struct name { \
    typedef scalar_of<V> T; \
    V value = splat((T)(identity)); \
    static METHOD V combine(V x, V y) { return expr; } \
    METHOD void step(V x) { value = combine(value, x); } \
    METHOD void step(V x, long k) { value = combine(value, sel(first(k), x, splat((T)(identity)))); } \
    METHOD void flush() {} \
    METHOD void merge(const name &other) { value = combine(value, other.value); } \
    METHOD void across() { value = fold_lanes(value, combine); } \
    METHOD V result() const { return value; } \
  };
SIMPLE_REDUCTION(IntegerSum, 0, x + y)
SIMPLE_REDUCTION(Product, 1, x * y)
SIMPLE_REDUCTION(Maximum, Limits<T>::low, maximum(x, y))
SIMPLE_REDUCTION(Minimum, Limits<T>::high, minimum(x, y))
SIMPLE_REDUCTION(Xor, 0, x ^ y)
SIMPLE_REDUCTION(Any, 0, x | y)
SIMPLE_REDUCTION(All, -1, x & y)

// Sums of floating-point numbers: short blocks are summed plainly, the sums of blocks with compensation (Neumaier).
template <class V> INL void add_compensated(V &total, V &lost, V x) {
  V s = total + x, b = s - total;
  lost = lost + ((total - (s - b)) + (x - b));
  total = s;
}
template <class V> struct Sum {
  V block = {}, total = {}, lost = {};
  METHOD void step(V x) { block = block + x; }
  METHOD void step(V x, long k) { block = block + sel(first(k), x, V{}); }
  METHOD void flush() { add_compensated(total, lost, block); block = V{}; }
  METHOD void merge(const Sum &other) {
    add_compensated(total, lost, other.total);
    lost = lost + other.lost;
    block = block + other.block;
  }
  METHOD void across() {
    V rest = sel(eq(lost, lost), lost, V{});  // not a number after an infinity
    block = splat((scalar_of<V>)(lane_sum(block + total) + lane_sum(rest)));
    total = lost = V{};
  }
  METHOD V result() const { return block + sel(eq(lost, lost), total + lost, total); }
};

// Mean and sum of squared deviations. Within a block deviations are taken from the block's first value; blocks are
// joined as by Chan et al.; lanes through the mean of all.
template <class V> struct Welford {
  typedef scalar_of<V> T;
  V mean = {}, m2 = {}, count = {};
  V shift = {}, sum = {}, squares = {};
  long n = 0;
  bool empty = true;
  METHOD void step(V x) {
    if (n == 0) shift = x;
    V d = x - shift;
    sum = sum + d;
    squares = fma(d, d, squares);
    n++;
  }
  METHOD void join(V other_mean, V other_m2, V other_count) {
    if (empty) {
      mean = other_mean;
      m2 = other_m2;
      count = other_count;
      empty = false;
      return;
    }
    V all = count + other_count, weight = sel(gt(all, V{}), other_count / all, V{}), delta = other_mean - mean;
    mean = sel(eq(count, V{}), other_mean, fma(delta, weight, mean));
    m2 = m2 + other_m2 + sel(gt(count, V{}) & gt(other_count, V{}), delta * delta * count * weight, V{});
    count = all;
  }
  METHOD void step(V x, long k) { mask m = first(k); join(sel(m, x, mean), V{}, sel(m, splat((T)1), V{})); }
  METHOD void flush() {
    if (n == 0) return;
    V c = splat((T)n), d = sum * splat((T)1 / (T)n), rest = fma(-sum, d, squares);
    join(shift + d, sel(lt(rest, V{}), V{}, rest), c);
    sum = squares = V{};
    n = 0;
  }
  METHOD void merge(Welford other) {
    flush();
    other.flush();
    if (!other.empty) join(other.mean, other.m2, other.count);
  }
  METHOD void across() {
    flush();
    double all = lane_sum(count), center = all > 0 ? lane_sum(mean * count) / all : 0.0;
    V delta = sel(gt(count, V{}), mean - splat((T)center), V{});
    double rest = lane_sum(delta * count);  // what the rounding of the center left
    m2 = splat((T)(lane_sum(fma(delta * delta, count, m2)) - (all > 0 ? rest * rest / all : 0.0)));
    mean = splat((T)(center == center && all > 0 ? (T)center + rest / all : center));
    count = splat((T)all);
  }
};

// Positions of the extreme value; the first of equals, NaN before everything.
template <class V, bool MAX> struct Position {
  typedef scalar_of<V> T;
  V value = {};
  i64 where = splat(0x7fffffffffffffffl);  // nothing seen yet
  static METHOD mask wins(V x, V y) { return MAX ? gt(x, y) : lt(x, y); }
  METHOD void take(V x, i64 at, mask active) {
    mask empty = eq(where, splat(0x7fffffffffffffffl)), old_nan = ne(value, value), new_nan = ne(x, x);
    mask better = (wins(x, value) & ~old_nan) | (new_nan & ~old_nan);
    mask equal = eq(x, value) | (new_nan & old_nan);
    better = active & (empty | better | (equal & lt(at, where)));
    value = sel(better, x, value);
    where = sel(better, at, where);
  }
  METHOD void step(V x, i64 at) { take(x, at, splat(true)); }
  METHOD void step(V x, i64 at, long k) { take(x, at, first(k)); }
  METHOD void flush() {}
  METHOD void merge(const Position &other) { take(other.value, other.where, ne(other.where, splat(0x7fffffffffffffffl))); }
  METHOD void across() {
    T v[N];
    long w[N];
    store(v, value);
    store(w, where);
    for (int l = 0; l < N; l++) take(splat(v[l]), splat(w[l]), splat(w[l] != 0x7fffffffffffffffl));
    store(v, value);
    store(w, where);
    value = splat(v[0]);
    where = splat(w[0]);
  }
  METHOD i64 result() const { return where; }
};
