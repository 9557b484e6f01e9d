/* correct twin of pub_table: the pointer is published when the table is full */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>

static _Atomic(unsigned *) crc_table;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static const char packet[] = "GET /index.html";

static unsigned entry(unsigned i)
{
    unsigned c = i << 4;
    for (int k = 0; k < 4; k++)
        c = c & 0x80 ? c << 1 ^ 0x31 : c << 1;
    return c & 0xff;
}

static unsigned *table(void)
{
    unsigned *t = atomic_load_explicit(&crc_table, memory_order_acquire);
    if (t)
        return t;
    pthread_mutex_lock(&table_lock);
    t = atomic_load(&crc_table);
    if (!t) {
        t = calloc(16, sizeof *t);
        for (unsigned i = 0; i < 16; i++)
            t[i] = entry(i);
        atomic_store_explicit(&crc_table, t, memory_order_release);
    }
    pthread_mutex_unlock(&table_lock);
    return t;
}

static void *checksum(void *arg)
{
    unsigned crc = 0xff, *t = table();
    for (const char *p = packet; *p; p++) {
        crc = (crc << 4 & 0xff) ^ t[(crc >> 4 ^ *p >> 4) & 15];
        crc = (crc << 4 & 0xff) ^ t[(crc >> 4 ^ *p) & 15];
    }
    *(unsigned *)arg = crc;
    return NULL;
}

int main(void)
{
    pthread_t t[2];
    unsigned crc[2], again;
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, checksum, &crc[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    checksum(&again);
    if (crc[0] != again || crc[1] != again) {
        printf("checksums %02x %02x, not %02x\n", crc[0], crc[1], again);
        return 1;
    }
    free(atomic_load(&crc_table));
    return 0;
}
