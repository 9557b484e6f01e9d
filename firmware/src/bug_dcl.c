/* A real bug: double-checked initialisation that publishes the object before filling it. The lock makes
 * sure that one core alone initialises, but the first check is made without the lock, and a core that
 * comes by between `published = object` and the last field uses a half-built object. Prints how many
 * uses there were and how many saw a half-built object; exit code 1 when there were any. */
#include "barrier.h"
#include "console.h"
#include "locks.h"
#include "machine.h"

#define OBJECTS 36
#define FIELDS 4
#define FIELD_WORK 20
#define USE_WORK 60
#define FIELD_VALUE(index, field) ((long)(index) * FIELDS + (field) + 1)

struct object {
    volatile long fields[FIELDS];
} LINE_ALIGNED;

static struct barrier all_cores;
static struct spin_lock init_lock;
static struct object objects[OBJECTS];
static struct object *volatile published[OBJECTS] LINE_ALIGNED;
static volatile long uses LINE_ALIGNED;
static volatile long half_built LINE_ALIGNED;

static NOINLINE void fill_object(struct object *object, long index) {
    for (long field = 0; field < FIELDS; field++) {
        busy_work(FIELD_WORK);
        object->fields[field] = FIELD_VALUE(index, field);
    }
}

static NOINLINE struct object *get_object(long index) {
    if (!published[index]) {
        spin_acquire(&init_lock);
        if (!published[index]) {
            published[index] = &objects[index]; /* the bug: this line belongs below the next */
            fill_object(&objects[index], index);
        }
        spin_release(&init_lock);
    }
    return published[index];
}

static NOINLINE int object_complete(const struct object *object, long index) {
    for (long field = 0; field < FIELDS; field++)
        if (object->fields[field] != FIELD_VALUE(index, field))
            return 0;
    return 1;
}

int main(long core, long cores) {
    long incomplete = 0;
    barrier_wait(&all_cores, cores);
    for (long index = 0; index < OBJECTS; index++) {
        incomplete += !object_complete(get_object(index), index);
        busy_work(USE_WORK);
    }
    fetch_add(&uses, OBJECTS);
    fetch_add(&half_built, incomplete);
    barrier_wait(&all_cores, cores);
    if (core != 0)
        return 0;
    print_field("bug_dcl: uses ", uses);
    print_field(" half-built ", half_built);
    print_string("\n");
    return half_built != 0;
}
