// Scans: running results along a loop. `along` goes from lane to lane (with k: of the first k lanes), `across` gives each
// lane a running result of its own. Sums and products of floating-point numbers are carried in double, as eager does.

// Lanes moved up by `by` places; those that become free hold `fill`.
#if defined(__clang__)
template <int by, class V> INL V moved_up(V x, scalar_of<V> fill) {
  V r;
  for (int l = 0; l < N; l++) r[l] = l < by ? fill : x[l - by];
  return r;
}
#else
template <int by, class V> INL V moved_up(V x, scalar_of<V> fill) {
  return __builtin_shuffle(x, splat(fill), (lane_numbers() - by) & (2 * N - 1));  // places below 0 take from `fill`
}
#endif
template <int by> INL f64 moved_up(f64 x, double fill) {
  double t[2 * N];
  store(t, splat(fill));
  store(t + N, x);
  return load((const double *)t + N - by);
}
// Running results within one vector, in log2(N) steps.
template <class V, class F> INL V running_lanes(V x, scalar_of<V> identity, F combine) {
  x = combine(moved_up<1>(x, identity), x);
  x = combine(moved_up<2>(x, identity), x);
  if constexpr (N > 4) x = combine(moved_up<(N > 4 ? 4 : 1)>(x, identity), x);
  if constexpr (N > 8) x = combine(moved_up<(N > 8 ? 8 : 1)>(x, identity), x);
  return x;
}
template <class V> INL auto lane(V x, long k) { return x[k]; }
INL double lane(f64 x, long k) { return k < N / 2 ? x.a[k] : x.b[k - N / 2]; }
INL long lane(i64 x, long k) { return k < N / 2 ? x.a[k] : x.b[k - N / 2]; }

// One lane after the other, for what has no faster way.
template <class T> INL T running_plus(T x, T y) { return x + y; }
template <class T> INL T running_times(T x, T y) { return x * y; }
#define RUNNING(name, identity, function) \
  template <class V> struct name { \
    typedef scalar_of<V> T; \
    T last = identity; \
    V lanes = splat((T)(identity)); \
    METHOD V along(V x, long k = N) { \
      T t[N]; \
      store(t, x); \
      for (long l = 0; l < k; l++) t[l] = last = function<T>(last, t[l]); \
      return load((const T *)t); \
    } \
    METHOD V across(V x) { return lanes = function<V>(lanes, x); } \
  };
RUNNING(RunningSum, 0, running_plus)
RUNNING(RunningProduct, 1, running_times)

template <> struct RunningSum<f32> {
  f64 last = {};
  METHOD f32 along(f32 x, long k = N) {
    f64 sums = last + to_f64(running_lanes(x, 0.0f, plus<f32>));
    last = splat(lane(sums, k - 1));
    return to_f32(sums);
  }
  METHOD f32 across(f32 x) { return to_f32(last = last + to_f64(x)); }
};
template <> struct RunningProduct<f32> {
  RunningProduct<f64> wide;
  METHOD f32 along(f32 x, long k = N) { return to_f32(wide.along(to_f64(x), k)); }
  METHOD f32 across(f32 x) { return to_f32(wide.across(to_f64(x))); }
};

// log(exp(x) + exp(y)) without overflow.
template <class V> INL V log_add_exp(V x, V y) {
  V low = minimum(x, y), high = maximum(x, y);
  mask plain = ne(low, high) | lt(abs(low), splat(Limits<scalar_of<V>>::high));
  return sel(plain, log1p(exp(low - high)) + high, x);
}
static __attribute__((noinline, unused)) double log_add_exp_of(double x, double y) {
  double low = x < y ? x : y, high = x < y ? y : x;
  if (x != x || y != y) return x + y;
  return low != high || low - low == 0 ? __builtin_log1p(__builtin_exp(low - high)) + high : x;
}
template <class V> struct RunningLogAddExp {
  V last = splat((scalar_of<V>)-__builtin_inf());
  double carry = -__builtin_inf();  // what many vectors add up to is kept in double
  METHOD V along(V x, long k = N) {
    V lanes = running_lanes(x, Limits<scalar_of<V>>::low, log_add_exp<V>), r = log_add_exp(last, lanes);
    carry = log_add_exp_of(carry, lane(lanes, k - 1));
    last = splat((scalar_of<V>)carry);
    return r;
  }
  f64 carries = splat(-__builtin_inf());
  METHOD V across(V x) { return narrowed(carries = log_add_exp(carries, to_f64(x)), x); }
  static METHOD f32 narrowed(f64 x, f32) { return to_f32(x); }
  static METHOD f64 narrowed(f64 x, f64) { return x; }
};

// An extreme and its position, the last among equals; a NaN stays until the next one.
template <class V> struct Extreme { V value; i64 where; };
template <class V, bool MAX> struct RunningExtreme {
  typedef scalar_of<V> T;
  T value = {};
  long where = -1, next = 0;
  V values = {};
  i64 places = splat(-1l);
  METHOD Extreme<V> along(V x, long k = N) {
    T v[N];
    long w[N] = {};
    store(v, x);
    for (long l = 0; l < k; l++, next++) {
      bool wins = (MAX ? v[l] >= value : v[l] <= value) && value == value;
      if (where < 0 || wins || v[l] != v[l]) {
        value = v[l];
        where = next;
      }
      v[l] = value;
      w[l] = where;
    }
    return {load((const T *)v), load((const long *)w)};
  }
  METHOD Extreme<V> across(V x) {
    mask wins = (MAX ? ge(x, values) : le(x, values)) & eq(values, values);
    mask take = wins | ne(x, x) | eq(places, splat(-1l));
    values = sel(take, x, values);
    places = sel(take, splat(next++), places);
    return {values, places};
  }
};

template <bool MAX> struct RunningExtreme<f32, MAX> {
  f32 values = {};
  i64 places = splat(-1l);
  long next = 0;
  static METHOD mask wins(f32 later, f32 earlier) {
    return ((MAX ? ge(later, earlier) : le(later, earlier)) & eq(earlier, earlier)) | ne(later, later);
  }
  template <int by> static METHOD void join(f32 &v, i32 &w) {
    f32 before = moved_up<by>(v, MAX ? Limits<float>::low : Limits<float>::high);
    mask take = wins(v, before);
    w = sel(take, w, moved_up<by>(w, 0));
    v = sel(take, v, before);
  }
  METHOD Extreme<f32> take(f32 v, i64 at) {
    mask take = wins(v, values) | eq(places, splat(-1l));
    return {sel(take, v, values), sel(take, at, places)};
  }
  METHOD Extreme<f32> along(f32 v, long k = N) {
    i32 w = lane_numbers();
    join<1>(v, w);
    join<2>(v, w);
    if constexpr (N > 4) join<(N > 4 ? 4 : 1)>(v, w);
    if constexpr (N > 8) join<(N > 8 ? 8 : 1)>(v, w);
    Extreme<f32> r = take(v, widen(w) + splat(next));
    next += k;
    values = splat(lane(r.value, k - 1));
    places = splat(lane(r.where, k - 1));
    return r;
  }
  METHOD Extreme<f32> across(f32 x) {
    Extreme<f32> r = take(x, splat(next++));
    values = r.value;
    places = r.where;
    return r;
  }
};
