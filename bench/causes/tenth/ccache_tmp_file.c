/* class: files raced on (name of a temporary file not unique); fails by: wrong result; cause: two compilations of the same source make their temporary file under the same name, the second one opens it anew while the first still writes, and the first one renames the file of the other or a mix of both into the cache */
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
    snprintf(path, PATH_LEN, "%s.%s.tmp", result, tmp_suffix);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); // CAUSE
}

/* puts the object file into the cache, false if that went wrong */
static int put_object_in_cache(const char *object) {
    char result[PATH_LEN / 2], tmp[PATH_LEN];
    snprintf(result, sizeof result, "%s/5f3a.o", cache_dir);
    int fd = open_tmp_file(tmp, result);
    if (fd < 0)
        return 0;
    int ok = write_all(fd, object); // CAUSE
    if (close(fd) != 0)
        ok = 0;
    if (ok && rename(tmp, result) != 0) // CAUSE
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
