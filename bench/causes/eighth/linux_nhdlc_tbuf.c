/* class: double free (a buffer put on the free list by two threads); fails by: abort (double free found by the allocator); cause: the flush and the resumed send both take the half sent frame from tbuf and put it on the free list, which frees it twice at release */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFS = 6, FRAMES = 4, FRAME_LEN = 24 };

struct n_hdlc_buf {
    struct n_hdlc_buf *link;
    int count;
    char buf[FRAME_LEN];
};

struct n_hdlc_buf_list {
    pthread_mutex_t spinlock;
    struct n_hdlc_buf *head, *tail;
};

static struct n_hdlc {
    struct n_hdlc_buf_list tx_buf_list, tx_free_buf_list;
    struct n_hdlc_buf *tbuf;
    pthread_mutex_t tbusy_lock;
    int tbusy, woke_up;
} hdlc = { .tx_buf_list.spinlock = PTHREAD_MUTEX_INITIALIZER,
           .tx_free_buf_list.spinlock = PTHREAD_MUTEX_INITIALIZER, .tbusy_lock = PTHREAD_MUTEX_INITIALIZER };

static struct tty {
    pthread_mutex_t lock;
    int room;
    unsigned sent;
} tty = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void buf_put(struct n_hdlc_buf_list *list, struct n_hdlc_buf *buf) {
    pthread_mutex_lock(&list->spinlock);
    buf->link = NULL;
    *(list->tail ? &list->tail->link : &list->head) = buf;
    list->tail = buf;
    pthread_mutex_unlock(&list->spinlock);
}

static struct n_hdlc_buf *buf_get(struct n_hdlc_buf_list *list) {
    pthread_mutex_lock(&list->spinlock);
    struct n_hdlc_buf *buf = list->head;
    if (buf) {
        list->head = buf->link;
        if (!list->head)
            list->tail = NULL;
    }
    pthread_mutex_unlock(&list->spinlock);
    return buf;
}

static void buf_push(struct n_hdlc_buf_list *list, struct n_hdlc_buf *buf) {
    pthread_mutex_lock(&list->spinlock);
    buf->link = list->head;
    list->head = buf;
    if (!list->tail)
        list->tail = buf;
    pthread_mutex_unlock(&list->spinlock);
}

static int tty_write(const struct n_hdlc_buf *b) {
    pthread_mutex_lock(&tty.lock);
    int ok = tty.room > 0;
    if (ok) {
        tty.room--;
        tty.sent += b->count == FRAME_LEN;
    }
    pthread_mutex_unlock(&tty.lock);
    return ok;
}

static void send_frames(struct n_hdlc *h) {
    pthread_mutex_lock(&h->tbusy_lock);
    if (h->tbusy) {
        h->woke_up = 1;
        pthread_mutex_unlock(&h->tbusy_lock);
        return;
    }
    h->tbusy = 1;
    do {
        h->woke_up = 0;
        pthread_mutex_unlock(&h->tbusy_lock);
        struct n_hdlc_buf *tbuf = h->tbuf; // CAUSE
        if (!tbuf)
            tbuf = buf_get(&h->tx_buf_list);
        while (tbuf) {
            if (!tty_write(tbuf)) {
                h->tbuf = tbuf;
                break;
            }
            buf_push(&h->tx_free_buf_list, tbuf); // CAUSE
            h->tbuf = NULL;
            tbuf = buf_get(&h->tx_buf_list);
        }
        pthread_mutex_lock(&h->tbusy_lock);
    } while (h->woke_up);
    h->tbusy = 0;
    pthread_mutex_unlock(&h->tbusy_lock);
}

static void *tty_drain(void *arg) {
    struct n_hdlc *h = arg;
    for (int i = 0; i < FRAMES; i++) {
        pthread_mutex_lock(&tty.lock);
        tty.room++;
        pthread_mutex_unlock(&tty.lock);
        send_frames(h);
    }
    return NULL;
}

static void *tty_ioctl_flush(void *arg) {
    struct n_hdlc *h = arg;
    struct n_hdlc_buf *buf;
    while ((buf = buf_get(&h->tx_buf_list)))
        buf_push(&h->tx_free_buf_list, buf);
    if (h->tbuf) { // CAUSE
        buf_push(&h->tx_free_buf_list, h->tbuf); // CAUSE
        h->tbuf = NULL; // CAUSE
    }
    return NULL;
}

int main(void) {
    pthread_t drain, flush;
    struct n_hdlc_buf *buf;
    unsigned released = 0;
    for (int i = 0; i < BUFS; i++)
        buf_push(&hdlc.tx_free_buf_list, calloc(1, sizeof *buf));
    for (int i = 0; i < FRAMES; i++) {
        buf = buf_get(&hdlc.tx_free_buf_list);
        memset(buf->buf, 'a' + i, FRAME_LEN);
        buf->count = FRAME_LEN;
        buf_put(&hdlc.tx_buf_list, buf);
    }
    send_frames(&hdlc);
    pthread_create(&drain, NULL, tty_drain, &hdlc);
    pthread_create(&flush, NULL, tty_ioctl_flush, &hdlc);
    pthread_join(drain, NULL);
    pthread_join(flush, NULL);
    tty_ioctl_flush(&hdlc);
    while ((buf = buf_get(&hdlc.tx_free_buf_list))) {
        released++;
        free(buf);
    }
    printf("sent %u frames, released %u buffers\n", tty.sent, released);
    return released == BUFS ? 0 : 1;
}
