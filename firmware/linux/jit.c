/* Code written at run time by one thread and run by another: rewritten 100 times in place, and once more
 * under write-xor-execute by mprotect; a function that changes its own next instruction. */
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096
#define VERSIONS 100

typedef long (*function)(long);

static unsigned char *code;
static pthread_barrier_t step;
static long results;

/* lea value(%rdi), %rax; ret */
static void write_function(unsigned char *place, int value) {
    static const unsigned char lea[] = {0x48, 0x8d, 0x87};
    memcpy(place, lea, 3);
    memcpy(place + 3, &value, 4);
    place[7] = 0xc3;
}

static void *run_versions(void *argument) {
    for (int version = 1; version <= VERSIONS; version++) {
        pthread_barrier_wait(&step); /* written */
        long result = ((function)code)(1000);
        CHECK(result == 1000 + version);
        results += result;
        pthread_barrier_wait(&step); /* run */
    }
    return argument;
}

static void rewrite_while_run(int protects) {
    pthread_t runner = start(run_versions, NULL);
    for (int version = 1; version <= VERSIONS; version++) {
        if (protects)
            CHECK(mprotect(code, PAGE, PROT_READ | PROT_WRITE) == 0);
        write_function(code, version);
        if (protects)
            CHECK(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
        pthread_barrier_wait(&step);
        pthread_barrier_wait(&step);
    }
    join(runner);
}

/* movb $value, 1(%rip); mov $0, %eax with its first byte of the constant changed; ret */
static void change_itself(void) {
    static const unsigned char body[] = {0xc6, 0x05, 1, 0, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + 256, body, sizeof body);
    for (int value = 1; value < 100; value += 7) {
        code[256 + 6] = value;
        CHECK(((function)(code + 256))(0) == value);
    }
}

/* Many small functions in one page, called in turn. */
static void *call_many(void *argument) {
    for (long i = 0; i < 50; i++)
        results += ((function)(code + 16 * (1 + i)))((long)argument);
    return NULL;
}

int main(void) {
    code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED && pthread_barrier_init(&step, NULL, 2) == 0);
    rewrite_while_run(0);
    change_itself();
    for (int i = 0; i < 50; i++)
        write_function(code + 16 * (1 + i), i);
    join(start(call_many, (void *)1L));
    rewrite_while_run(1);
    printf("jit: versions %d, sum %ld\n", 2 * VERSIONS, results);
    return 0;
}
