/* Twin of glib_type_publish: the node is put into the table last. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct TypeNode {
    int (*class_init)(struct TypeNode *);
    int n_children;
    int instance_size;
} TypeNode;

static TypeNode *_Atomic type_table[4];
static atomic_int lookups;
static pthread_mutex_t class_init_mutex = PTHREAD_MUTEX_INITIALIZER;

static int object_class_init(TypeNode *node)
{
    pthread_mutex_lock(&class_init_mutex);
    node->n_children++;
    pthread_mutex_unlock(&class_init_mutex);
    return 1;
}

static void type_register(int id, int size)
{
    TypeNode *node = calloc(1, sizeof *node);
    node->instance_size = size;
    node->class_init = object_class_init;
    atomic_store(&type_table[id], node);
}

static int type_class_ref(int id)
{
    TypeNode *node = atomic_load(&type_table[id]);
    atomic_fetch_add(&lookups, 1);
    if (!node)
        return 0;
    return node->class_init(node);
}

static void *registrar(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        type_register(i, 16 * (i + 1));
    return NULL;
}

static void *user(void *arg)
{
    long n = 0;
    (void)arg;
    for (int i = 0; i < 3; i++)
        n += type_class_ref(i);
    return (void *)n;
}

int main(void)
{
    pthread_t a, b, c;
    void *n, *m;
    pthread_create(&a, NULL, registrar, NULL);
    pthread_create(&b, NULL, user, NULL);
    pthread_create(&c, NULL, user, NULL);
    pthread_join(a, NULL);
    pthread_join(b, &n);
    pthread_join(c, &m);
    printf("%ld of %d\n", (long)n + (long)m, atomic_load(&lookups));
    return atomic_load(&lookups) != 6;
}
