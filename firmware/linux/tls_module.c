/* A shared library with a thread-local counter and a constructor: for `dlopen_tls`, and linked into
 * `runpath`. */
static __thread long count = 100;
static __thread long history[600];
static long constructed;

__attribute__((constructor)) static void construct(void) {
    constructed = 1;
}

long module_constructed(void) {
    return constructed;
}

/* This thread's counter, one higher at every call. */
long module_count(void) {
    history[count % 600] = count;
    return history[count++ % 600];
}
