/* class: time of check to time of use (name length measured, name copied later); fails by: abort; cause: a rename writes a longer name into the dentry between the strlen which sizes the event and the copy, which then runs over the end of the event */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_END 0x1f1f5eedu
enum { NAME_MAX_LEN = 40, FILES = 2, WRITES = 4 };

struct dentry {
    pthread_mutex_t d_lock;
    unsigned long ino;
    char d_iname[NAME_MAX_LEN];
};

struct inotify_event_info {
    struct inotify_event_info *next;
    unsigned mask, len;
    char name[];
};

static struct group {
    pthread_mutex_t lock;
    struct inotify_event_info *head, **tail;
    unsigned q_len, allocated, bytes;
} group = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct dentry files[FILES] = {
    { PTHREAD_MUTEX_INITIALIZER, 101, "a.txt" },
    { PTHREAD_MUTEX_INITIALIZER, 102, "notes" },
};

static size_t tail_offset(unsigned len) {
    return (sizeof(struct inotify_event_info) + len + 1 + 7) / 8 * 8;
}

static struct inotify_event_info *alloc_event(unsigned mask, unsigned len) {
    const uint32_t end = EVENT_END;
    struct inotify_event_info *e = calloc(1, tail_offset(len) + NAME_MAX_LEN);
    e->mask = mask;
    e->len = len;
    memcpy((char *)e + tail_offset(len), &end, sizeof end);
    pthread_mutex_lock(&group.lock);
    group.allocated++;
    group.bytes += len;
    pthread_mutex_unlock(&group.lock);
    return e;
}

static void inotify_handle_event(unsigned mask, const char *file_name) {
    unsigned len = (unsigned)strlen(file_name); // CAUSE
    struct inotify_event_info *e = alloc_event(mask, len);
    strcpy(e->name, file_name); // CAUSE
    pthread_mutex_lock(&group.lock);
    *group.tail = e;
    group.tail = &e->next;
    group.q_len++;
    pthread_mutex_unlock(&group.lock);
}

static void fsnotify_modify(struct dentry *d) {
    inotify_handle_event(0x2, d->d_iname);
}

static void vfs_rename(struct dentry *d, const char *to) {
    pthread_mutex_lock(&d->d_lock);
    strcpy(d->d_iname, to); // CAUSE
    pthread_mutex_unlock(&d->d_lock);
}

static void *writer(void *arg) {
    struct dentry *d = arg;
    for (int i = 0; i < WRITES; i++)
        fsnotify_modify(d);
    return NULL;
}

static void *renamer(void *arg) {
    (void)arg;
    vfs_rename(&files[0], "a-copy-for-the-archive.txt");
    vfs_rename(&files[1], "notes-of-the-last-meeting");
    return NULL;
}

static unsigned read_events(void) {
    struct inotify_event_info *e = group.head;
    unsigned n = 0;
    while (e) {
        struct inotify_event_info *next = e->next;
        uint32_t end;
        memcpy(&end, (char *)e + tail_offset(e->len), sizeof end);
        if (end != EVENT_END) {
            fprintf(stderr, "inotify: event %u overruns its buffer (len %u)\n", n, e->len);
            abort();
        }
        n++;
        free(e);
        e = next;
    }
    return n;
}

int main(void) {
    pthread_t w[FILES], r;
    group.tail = &group.head;
    for (int i = 0; i < FILES; i++)
        pthread_create(&w[i], NULL, writer, &files[i]);
    pthread_create(&r, NULL, renamer, NULL);
    for (int i = 0; i < FILES; i++)
        pthread_join(w[i], NULL);
    pthread_join(r, NULL);
    unsigned n = read_events();
    printf("%u events, %u bytes of names\n", n, group.bytes);
    return n == FILES * WRITES && group.q_len == n ? 0 : 1;
}
