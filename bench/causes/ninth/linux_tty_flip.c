/* class: atomicity violation (one variable); fails by: wrong result; cause: the echo of the line discipline and a write from the other end both read the fill level of the flip buffer before either has stored the new one, so one text is put over the other */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_SIZE = 64, WRITERS = 2, LINES = 5 };

struct tty_buffer {
    struct tty_buffer *next;
    int used;
    int size;
    int commit;
    unsigned char data[BUF_SIZE];
};

struct tty_port {
    pthread_mutex_t lock; /* for the list of buffers */
    struct tty_buffer *head, *tail;
    unsigned buffers;
};

static struct tty_port port = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct tty_buffer *tty_buffer_alloc(void) {
    struct tty_buffer *b = calloc(1, sizeof *b);
    b->size = BUF_SIZE;
    return b;
}

/* returns a buffer with room for the given number of bytes */
static struct tty_buffer *tty_buffer_request_room(int count) {
    pthread_mutex_lock(&port.lock);
    struct tty_buffer *b = port.tail;
    if (b->size - b->used < 2 * count) {
        struct tty_buffer *n = tty_buffer_alloc();
        b->commit = 1;
        b->next = n;
        port.tail = n;
        port.buffers++;
        b = n;
    }
    pthread_mutex_unlock(&port.lock);
    return b;
}

static int tty_insert_flip_string(const char *chars, int count) {
    struct tty_buffer *b;
    int at;
    do {
        b = tty_buffer_request_room(count);
        at = b->used; // CAUSE
    } while (at + count > b->size);
    memcpy(b->data + at, chars, (size_t)count);
    b->used = at + count; // CAUSE
    return count;
}

struct writer {
    pthread_t thread;
    const char *name;
    unsigned written;
};

static void *writer_main(void *arg) {
    struct writer *w = arg;
    for (int i = 0; i < LINES; i++) {
        char line[16];
        int n = snprintf(line, sizeof line, "%s%d\n", w->name, i);
        w->written += tty_insert_flip_string(line, n) == n;
    }
    return NULL;
}

/* flush to the line discipline: every complete line is looked up in what the port received */
static int flush_to_ldisc(char *out, int size) {
    int n = 0;
    while (port.head) {
        struct tty_buffer *b = port.head;
        for (int i = 0; i < b->used && n < size - 1; i++)
            out[n++] = (char)b->data[i];
        port.head = b->next;
        free(b);
    }
    out[n] = 0;
    return n;
}

int main(void) {
    static char received[512];
    struct writer w[WRITERS] = { { .name = "echo" }, { .name = "pty" } };
    unsigned missing = 0;
    port.head = port.tail = tty_buffer_alloc();
    port.buffers = 1;
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&w[i].thread, NULL, writer_main, &w[i]);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(w[i].thread, NULL);
    int n = flush_to_ldisc(received, sizeof received);
    for (int i = 0; i < WRITERS; i++) {
        for (int k = 0; k < LINES; k++) {
            char line[16];
            snprintf(line, sizeof line, "%s%d\n", w[i].name, k);
            if (!strstr(received, line))
                missing++;
        }
    }
    printf("%d bytes in %u buffers, %u lines missing\n", n, port.buffers, missing);
    return missing == 0 && w[0].written == LINES && w[1].written == LINES ? 0 : 1;
}
