/* A small ray tracer: 4 threads take rows of an image from a queue under a mutex; each sphere counts its hits, and
 * whoever has finished a row adds its light to the image's. Arguments: width and height. */
#include "guest.h"
#include <stdlib.h>

#define THREADS 4
#define SPHERES 6
#define LIGHT 1024

struct sphere {
    long x, y, z, radius, shade, hits;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sphere spheres[SPHERES];
static long width, height, next_row, light;
static unsigned char *image;

/* Distance along the ray through (x, y), parallel to the z axis, in whole units; -1 if it misses. */
static long distance(const struct sphere *s, long x, long y) {
    long dx = x - s->x, dy = y - s->y, left = s->radius * s->radius - dx * dx - dy * dy, root = 0;
    if (left < 0)
        return -1;
    for (long bit = 1l << 10; bit > 0; bit >>= 1)
        if ((root + bit) * (root + bit) <= left)
            root += bit;
    return s->z - root;
}

static long trace(long x, long y) {
    long nearest = -1, hit = -1;
    for (int i = 0; i < SPHERES; i++) {
        long far = distance(&spheres[i], x, y);
        if (far >= 0 && (hit < 0 || far < nearest)) {
            nearest = far;
            hit = i;
        }
    }
    if (hit < 0)
        return 0;
    __atomic_fetch_add(&spheres[hit].hits, 1, __ATOMIC_RELAXED);
    long shade = spheres[hit].shade - nearest / 8;
    return shade < 0 ? 0 : shade;
}

static void *render(void *argument) {
    for (;;) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        long row = next_row++;
        CHECK(pthread_mutex_unlock(&lock) == 0);
        if (row >= height)
            return argument;
        long own = 0;
        for (long column = 0; column < width; column++) {
            long shade = trace(LIGHT * column / width, LIGHT * row / height);
            image[row * width + column] = (unsigned char)shade;
            own += shade;
        }
        CHECK(pthread_mutex_lock(&lock) == 0);
        light += own;
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
}

int main(int count, char **arguments) {
    width = count > 1 ? atol(arguments[1]) : 48;
    height = count > 2 ? atol(arguments[2]) : 32;
    CHECK((image = calloc(width, height)) != NULL);
    for (long i = 0; i < SPHERES; i++)
        spheres[i] = (struct sphere){150 * i + 130, 330 + 190 * (i % 3), 700 - 80 * i, 90 + 40 * (i % 4), 200, 0};
    run_threads(THREADS, render);
    long hits = 0;
    for (int i = 0; i < SPHERES; i++)
        hits += spheres[i].hits;
    printf("ray_tracer: pixels %ld hits %ld light %ld\n", width * height, hits, light);
    return 0;
}
