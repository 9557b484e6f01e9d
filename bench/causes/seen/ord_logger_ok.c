/* correct twin of ord_logger: the logger is opened before the worker is started */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct logger {
    pthread_mutex_t lock;
    size_t used;
    char text[512];
};

static struct logger *logger;
static int jobs[5];

static struct logger *open_logger(const char *title)
{
    struct logger *l = malloc(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    l->used = strlen(title);
    memcpy(l->text, title, l->used);
    return l;
}

static void log_job(int id, int result)
{
    struct logger *l = logger;
    pthread_mutex_lock(&l->lock);
    l->used += snprintf(l->text + l->used, 32, "job %d: %d\n", id, result);
    pthread_mutex_unlock(&l->lock);
}

static int collatz(int n)
{
    int steps = 0;
    for (; n != 1; n = n % 2 ? 3 * n + 1 : n / 2)
        steps++;
    return steps;
}

static void *worker(void *arg)
{
    int *n = arg;
    for (int i = 0; i < 5; i++) {
        n[i] = collatz(27 + i);
        log_job(i, n[i]);
    }
    return NULL;
}

int main(void)
{
    pthread_t t;
    logger = open_logger("== jobs ==\n");
    pthread_create(&t, NULL, worker, jobs);
    log_job(-1, 0);
    pthread_join(t, NULL);
    int lines = 0;
    for (size_t i = 0; i < logger->used; i++)
        lines += logger->text[i] == '\n';
    free(logger);
    return lines != 7;
}
