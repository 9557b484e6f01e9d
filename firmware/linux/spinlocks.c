/* Spin locks: 4 threads behind pthread_spin_lock, and behind a lock of their own (exchange and pause). */
#include "guest.h"

#define THREADS 4
#define ROUNDS 100

static pthread_spinlock_t lock;
static int own_lock;
static volatile long count, own_count;

static void *spin(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_spin_lock(&lock) == 0);
        count = count + 1;
        CHECK(pthread_spin_unlock(&lock) == 0);
        while (__atomic_exchange_n(&own_lock, 1, __ATOMIC_ACQUIRE))
            __builtin_ia32_pause();
        own_count = own_count + 1;
        __atomic_store_n(&own_lock, 0, __ATOMIC_RELEASE);
    }
    return argument;
}

int main(void) {
    CHECK(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE) == 0);
    run_threads(THREADS, spin);
    CHECK(pthread_spin_trylock(&lock) == 0);
    CHECK(pthread_spin_trylock(&lock) == EBUSY);
    CHECK(pthread_spin_unlock(&lock) == 0);
    CHECK(count == THREADS * ROUNDS && own_count == count);
    printf("spinlocks: count %ld own %ld\n", count, own_count);
    return 0;
}
