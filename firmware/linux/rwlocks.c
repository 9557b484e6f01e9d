/* Read-write locks: 4 writers keep two words equal, 4 readers must never see them differ; try and timed
 * forms; a lock that prefers writers. */
#include "guest.h"

#define ROUNDS 50

static pthread_rwlock_t lock;
static volatile long left, right;
static long reads;

static void *read_or_write(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        if ((long)argument % 2 == 0) {
            CHECK(pthread_rwlock_wrlock(&lock) == 0);
            left++;
            right++;
        } else {
            CHECK(pthread_rwlock_rdlock(&lock) == 0);
            CHECK(left == right);
            __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
        }
        CHECK(pthread_rwlock_unlock(&lock) == 0);
    }
    return NULL;
}

static void *fail_while_written(void *argument) {
    struct timespec until = time_from_now(CLOCK_REALTIME, 5);
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY && pthread_rwlock_trywrlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_timedrdlock(&lock, &until) == ETIMEDOUT);
    CHECK(pthread_rwlock_timedwrlock(&lock, &until) == ETIMEDOUT);
    return argument;
}

static void *share_while_read(void *argument) {
    CHECK(pthread_rwlock_tryrdlock(&lock) == 0);
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    return argument;
}

static void use(int kind) {
    pthread_rwlockattr_t attributes;
    CHECK(pthread_rwlockattr_init(&attributes) == 0 && pthread_rwlockattr_setkind_np(&attributes, kind) == 0);
    CHECK(pthread_rwlock_init(&lock, &attributes) == 0);
    run_threads(8, read_or_write);
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    CHECK(pthread_rwlock_rdlock(&lock) == EDEADLK);
    run_threads(1, fail_while_written);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_rdlock(&lock) == 0);
    run_threads(1, share_while_read);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_destroy(&lock) == 0);
}

int main(void) {
    use(PTHREAD_RWLOCK_PREFER_READER_NP);
    use(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    CHECK(left == 2 * 4 * ROUNDS && right == left && reads == left);
    printf("rwlocks: writes %ld reads %ld\n", left, reads);
    return 0;
}
