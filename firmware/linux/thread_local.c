/* What each thread has of its own: errno, small and large __thread variables, pthread keys with destructors
 * that run again while they set values, and the thread's name. */
#include "guest.h"

#define THREADS 8
#define NUMBERS 5000

static __thread long number = 7;
static __thread char text[24] = "initial";
static __thread long numbers[NUMBERS]; /* 40 KB for each thread */
static __thread struct { long a; } __attribute__((aligned(256))) aligned = {11};
static pthread_key_t key, second_key;
static long destroyed, destroyed_again;
static pthread_barrier_t together;

/* Sets the second key's value once more, so that its destructor runs in a later round. */
static void destroy(void *value) {
    __atomic_fetch_add(&destroyed, (long)value, __ATOMIC_SEQ_CST);
    CHECK(pthread_getspecific(key) == NULL);
    CHECK(pthread_setspecific(second_key, value) == 0);
}

static void destroy_second(void *value) {
    __atomic_fetch_add(&destroyed_again, (long)value, __ATOMIC_SEQ_CST);
}

static void *live(void *argument) {
    int self = (int)(long)argument + 1;
    char name[32], read_back[32];
    CHECK(number == 7 && strcmp(text, "initial") == 0 && aligned.a == 11);
    CHECK((unsigned long)&aligned % 256 == 0);
    for (int i = 0; i < NUMBERS; i += 50) {
        CHECK(numbers[i] == 0);
        numbers[i] = (long)self * i;
    }
    number = self;
    snprintf(text, sizeof text, "thread %d", self);
    errno = 0;
    if (self % 2)
        CHECK_FAILS(close(-1), EBADF);
    snprintf(name, sizeof name, "worker-%d", self);
    CHECK(pthread_setname_np(pthread_self(), name) == 0);
    CHECK(pthread_setspecific(key, argument + 1) == 0);
    pthread_barrier_wait(&together); /* everyone has written before anyone looks */
    CHECK(errno == (self % 2 ? EBADF : 0));
    CHECK(pthread_getname_np(pthread_self(), read_back, sizeof read_back) == 0 && strcmp(name, read_back) == 0);
    CHECK(number == self && text[7] == '0' + self && pthread_getspecific(key) == (void *)(long)self);
    for (int i = 0; i < NUMBERS; i += 50)
        CHECK(numbers[i] == (long)self * i);
    return &number;
}

int main(void) {
    pthread_t threads[THREADS];
    void *addresses[THREADS];
    CHECK(pthread_key_create(&key, destroy) == 0 && pthread_key_create(&second_key, destroy_second) == 0);
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(live, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        addresses[i] = join(threads[i]);
        for (int j = 0; j < i; j++)
            CHECK(addresses[i] != addresses[j]);
    }
    CHECK(number == 7 && strcmp(text, "initial") == 0 && numbers[50] == 0);
    CHECK(destroyed == 36 && destroyed_again == 36);
    CHECK(pthread_key_delete(key) == 0 && pthread_key_delete(second_key) == 0);
    printf("thread_local: threads %d, destructors %ld and %ld\n", THREADS, destroyed, destroyed_again);
    return 0;
}
