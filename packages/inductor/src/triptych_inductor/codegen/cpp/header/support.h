// What every unit shares: failures, checked indices, writes that add, the thread pool, and the entry from Python.

// code 1: index out of range of a dimension; 2: integer division by zero; 3: as 1, but a RuntimeError; 4: a row of a
// table that is not there; 5: a class that is not there. Only with 1 do negative numbers count from the end.
struct Failure { long code, value, dimension, size; };
extern "C" { static int (*max_threads)(); static void (*gomp_parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*thread_number)(); static int (*thread_count)(); }

template <int CODE, int DIMENSION> INL long checked_index(long i, long size, Failure *failure) {
  long j = CODE == 1 && i < 0 ? i + size : i;
  if (__builtin_expect(j < 0 || j >= size, 0)) {
    failure->code = CODE;
    failure->value = i;
    failure->dimension = DIMENSION;
    failure->size = size;
    return 0;
  }
  return j;
}
INL long wrapped_index(long i, long size) { return i < 0 ? i + size : i; }
template <int CODE, int DIMENSION> INL void checked_indices(long *at, i64 v, long size, mask active, Failure *failure) {
  long t[N];
  store(t, v);
  for (int l = 0; l < N; l++) at[l] = active[l] ? checked_index<CODE, DIMENSION>(t[l], size, failure) : 0;
}
INL void wrapped_indices(long *at, i64 v, long size, mask active) {
  long t[N];
  store(t, v);
  for (int l = 0; l < N; l++) at[l] = active[l] ? wrapped_index(t[l], size) : 0;
}
template <class T> struct Memory { T data[N]; };
template <class V, class T> INL Memory<T> memory(V v, T *) { Memory<T> m; store(m.data, v); return m; }
INL long lane0(i64 v) { return v.a[0]; }
INL void add_into(bool *p, bool x) { *p |= x; }
INL void add_into(bf16 *p, bf16 x) { store(p, load((const bf16 *)p, 1) + load((const bf16 *)&x, 1), 1); }
INL void add_into(f16 *p, f16 x) { store(p, load((const f16 *)p, 1) + load((const f16 *)&x, 1), 1); }
template <class T> INL void add_into(T *p, T x) { *p += x; }

// Integer arithmetic of indices: rounding down, as in Python.
INL long floor_div(long a, long b) { long q = a / b; return q - ((a % b != 0) & ((a ^ b) < 0)); }
INL long modulo(long a, long b) { long r = a % b; return r + ((r != 0 && (r ^ b) < 0) ? b : 0); }
INL long min_of(long a, long b) { return a < b ? a : b; }
INL long max_of(long a, long b) { return a > b ? a : b; }
INL long power_of(long a, long n) { long r = 1; while (n-- > 0) r *= a; return r; }

extern "C" void *aligned_alloc(unsigned long, unsigned long);

// run(arguments, begin, end, thread) on contiguous shares of [0, total).
typedef void (*Part)(const long *, long, long, long);
struct Job { Part run; const long *arguments; long total; };
static void run_share(void *p) {
  Job *job = (Job *)p;
  long t = thread_number(), n = thread_count();
  job->run(job->arguments, job->total * t / n, job->total * (t + 1) / n, t);
}
INL long threads_for(long work, long total) {
  long n = work / 32768;
  if (n <= 1 || total <= 1) return 1;
  long most = max_threads();
  n = n < most ? n : most;
  return n < total ? n : total;
}
// Lanes of a tile of `extent` lanes: whole vectors, at most `most` lanes, and at least `shares` tiles where there are
// as many vectors.
INL long tile_width(long extent, long most, long shares) {
  long vectors = (extent + N - 1) / N, each = vectors / max_of(shares, 1);
  return max_of(min_of(each * N, most), N);
}
// Pieces of a reduction of `extent` steps, for threads that `total` shares would leave idle.
INL long pieces(long work, long total, long extent) {
  long threads = threads_for(work, extent / 16);
  return threads <= total || total == 0 ? 1 : (threads + total - 1) / total;
}
INL long piece_start(long extent, long piece, long splits, long step) {
  return piece >= splits ? extent : extent * piece / splits / step * step;
}
static void parallel(Part run, const long *arguments, long total, long threads) {
  Job job = {run, arguments, total};
  if (threads <= 1) run(arguments, 0, total, 0);
  else gomp_parallel(run_share, &job, (unsigned)threads, 0);
}
