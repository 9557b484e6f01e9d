/* correct twin of ccache_tmp_file: the temporary file is made by mkstemp under a name of its own */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTAINERS = 2, PATH_LEN = 128 };

/* containers with the same host name, process number and cache directory */
static char cache_dir[] = "/tmp/ccacheXXXXXX";
static const char tmp_suffix[] = "buildhost.17";

struct container {
    pthread_t thread;
    const char *object;
    int failed;
};

static int write_all(int fd, const char *data) {
    size_t len = strlen(data), half = len / 2;
    return write(fd, data, half) == (ssize_t)half && write(fd, data + half, len - half) == (ssize_t)(len - half);
}

static int open_tmp_file(char *path, const char *result) {
    snprintf(path, PATH_LEN, "%s.%s.XXXXXX", result, tmp_suffix);
    return mkstemp(path);
}

/* puts the object file into the cache, false if that went wrong */
static int put_object_in_cache(const char *object) {
    char result[PATH_LEN / 2], tmp[PATH_LEN];
    snprintf(result, sizeof result, "%s/5f3a.o", cache_dir);
    int fd = open_tmp_file(tmp, result);
    if (fd < 0)
        return 0;
    int ok = write_all(fd, object);
    if (close(fd) != 0)
        ok = 0;
    if (ok && rename(tmp, result) != 0)
        ok = 0;
    return ok;
}

static void *compile(void *arg) {
    struct container *c = arg;
    c->failed = !put_object_in_cache(c->object);
    return NULL;
}

static int cached_object(char *buf, size_t size) {
    char path[PATH_LEN];
    snprintf(path, sizeof path, "%s/5f3a.o", cache_dir);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);
    if (fd >= 0)
        close(fd);
    unlink(path);
    buf[n > 0 ? n : 0] = 0;
    return n > 0;
}

int main(void) {
    struct container c[CONTAINERS] = { { .object = "text of object, built with debug info" },
                                       { .object = "text of object, built" } };
    char object[PATH_LEN], leftover[PATH_LEN];
    if (!mkdtemp(cache_dir))
        return 2;
    for (int i = 0; i < CONTAINERS; i++)
        pthread_create(&c[i].thread, NULL, compile, &c[i]);
    for (int i = 0; i < CONTAINERS; i++)
        pthread_join(c[i].thread, NULL);
    int found = cached_object(object, sizeof object);
    int whole = found && (!strcmp(object, c[0].object) || !strcmp(object, c[1].object));
    snprintf(leftover, sizeof leftover, "%s/5f3a.o.%s.tmp", cache_dir, tmp_suffix);
    unlink(leftover);
    rmdir(cache_dir);
    printf("cached: \"%s\", %d failed\n", object, c[0].failed + c[1].failed);
    return whole && !c[0].failed && !c[1].failed ? 0 : 1;
}
