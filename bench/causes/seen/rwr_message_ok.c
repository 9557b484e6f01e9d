/* correct twin of rwr_message: length and bytes are copied under one lock */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct mailbox {
    pthread_mutex_t lock;
    size_t len;
    char data[32];
    int version;
};

static struct mailbox box = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void post(struct mailbox *m, const char *text)
{
    pthread_mutex_lock(&m->lock);
    memset(m->data, 0, sizeof m->data);
    m->len = strlen(text);
    memcpy(m->data, text, m->len);
    m->version++;
    pthread_mutex_unlock(&m->lock);
}

static size_t fetch(struct mailbox *m, char *out)
{
    pthread_mutex_lock(&m->lock);
    size_t n = m->len;
    memcpy(out, m->data, n);
    pthread_mutex_unlock(&m->lock);
    out[n] = 0;
    return n;
}

static void *sender(void *arg)
{
    static const char *texts[] = { "status: all pumps running", "idle", "pump 2 failed", "ok" };
    for (int i = 0; i < 4; i++)
        post(arg, texts[i]);
    return NULL;
}

int main(void)
{
    pthread_t t;
    char buf[33];
    post(&box, "starting the controller");
    pthread_create(&t, NULL, sender, &box);
    for (int i = 0; i < 4; i++) {
        size_t n = fetch(&box, buf);
        if (strlen(buf) != n) {
            fprintf(stderr, "message of %zu bytes has only \"%s\"\n", n, buf);
            return 3;
        }
    }
    pthread_join(t, NULL);
    return box.version != 5;
}
