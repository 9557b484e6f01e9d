/* correct twin of openblas_buffer_slot: a slot is looked for, marked and given back under the allocation lock */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_BUFFERS = 4, N = 6, CALLS = 3, THREADS = 3 };

struct buffer_slot {
    volatile int used;
    double *addr;
    char pad[48];
};

static pthread_mutex_t alloc_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer_slot memory[NUM_BUFFERS];
static double buffers[NUM_BUFFERS][2 * N * N];

static void blas_memory_init(void) {
    for (int i = 0; i < NUM_BUFFERS; i++)
        memory[i].addr = buffers[i];
}

static double *blas_memory_alloc(void) {
    pthread_mutex_lock(&alloc_lock);
    for (int pos = 0; pos < NUM_BUFFERS; pos++) {
        if (memory[pos].used)
            continue;
        memory[pos].used = 1;
        pthread_mutex_unlock(&alloc_lock);
        return memory[pos].addr;
    }
    pthread_mutex_unlock(&alloc_lock);
    fprintf(stderr, "BLAS : Program is Terminated. Because you tried to allocate too many memory regions.\n");
    exit(1);
}

static int blas_memory_free(double *addr) {
    for (int pos = 0; pos < NUM_BUFFERS; pos++) {
        if (memory[pos].addr != addr)
            continue;
        pthread_mutex_lock(&alloc_lock);
        int used = memory[pos].used;
        memory[pos].used = 0;
        pthread_mutex_unlock(&alloc_lock);
        if (used)
            return 0;
        fprintf(stderr, "BLAS : Bad memory unallocation! : %d\n", pos);
        return -1;
    }
    return -1;
}

/* C = A * B, with A and the transposed B packed into one buffer */
static int dgemm(const double *a, const double *b, double *c) {
    double *buffer = blas_memory_alloc();
    double *sa = buffer, *sb = buffer + N * N;
    memcpy(sa, a, N * N * sizeof *sa);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sb[j * N + i] = b[i * N + j];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += sa[i * N + k] * sb[j * N + k];
            c[i * N + j] = sum;
        }
    }
    return blas_memory_free(buffer);
}

struct task {
    pthread_t thread;
    int scale;
    int errors, wrong;
};

static void *worker(void *arg) {
    struct task *t = arg;
    double a[N * N], b[N * N], c[N * N];
    for (int call = 1; call <= CALLS; call++) {
        for (int i = 0; i < N * N; i++) {
            a[i] = t->scale * (i % 5 + call);
            b[i] = i / N == i % N ? 2 : 0;
        }
        if (dgemm(a, b, c) != 0)
            t->errors++;
        for (int i = 0; i < N * N; i++) {
            if (c[i] != 2 * a[i]) {
                t->wrong++;
                break;
            }
        }
    }
    return NULL;
}

int main(void) {
    struct task task[THREADS];
    int errors = 0, wrong = 0, in_use = 0;
    memset(task, 0, sizeof task);
    blas_memory_init();
    for (int i = 0; i < THREADS; i++) {
        task[i].scale = i + 1;
        pthread_create(&task[i].thread, NULL, worker, &task[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(task[i].thread, NULL);
        errors += task[i].errors;
        wrong += task[i].wrong;
    }
    for (int i = 0; i < NUM_BUFFERS; i++)
        in_use += memory[i].used;
    printf("%d products wrong, %d bad frees, %d buffers in use\n", wrong, errors, in_use);
    return wrong == 0 && errors == 0 && in_use == 0 ? 0 : 1;
}
