/* class: order violation (published before it is counted); fails by: abort; cause: the ioctl installs the descriptor of the new device before it takes the reference to the virtual machine for it, and another thread closes that descriptor in between, which drops the last reference and destroys the machine */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_FDS = 4, MEMSLOTS = 2 };

struct kvm {
    atomic_int users_count;
    atomic_int created_devices;
    int memslots[MEMSLOTS];
    int destroyed;
};

struct file {
    void (*release)(void *private_data);
    void *private_data;
};

static struct {
    pthread_mutex_t lock;
    struct file *fd[MAX_FDS];
} files = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int fd_install(void (*release)(void *), void *data) {
    struct file *f = malloc(sizeof *f);
    int fd = 0;
    if (!f)
        exit(2);
    f->release = release;
    f->private_data = data;
    pthread_mutex_lock(&files.lock);
    while (fd < MAX_FDS && files.fd[fd])
        fd++;
    if (fd == MAX_FDS)
        exit(2);
    files.fd[fd] = f;
    pthread_mutex_unlock(&files.lock);
    return fd;
}

static int sys_close(int fd) {
    pthread_mutex_lock(&files.lock);
    struct file *f = files.fd[fd];
    files.fd[fd] = NULL;
    pthread_mutex_unlock(&files.lock);
    if (!f)
        return -1;
    f->release(f->private_data);
    free(f);
    return 0;
}

static void kvm_get_kvm(struct kvm *kvm) {
    int old = atomic_fetch_add(&kvm->users_count, 1); // CAUSE
    assert(old > 0);
    (void)old;
}

static void kvm_put_kvm(struct kvm *kvm) {
    if (atomic_fetch_sub(&kvm->users_count, 1) == 1) { // CAUSE
        for (int i = 0; i < MEMSLOTS; i++)
            kvm->memslots[i] = 0;
        kvm->destroyed = 1;
    }
}

struct kvm_device {
    struct kvm *kvm;
    int type;
};

static void vm_release(void *data) {
    kvm_put_kvm(data);
}

static void device_release(void *data) {
    struct kvm_device *dev = data;
    struct kvm *kvm = dev->kvm;
    free(dev);
    kvm_put_kvm(kvm);
}

static int kvm_ioctl_create_device(struct kvm *kvm, int type) {
    struct kvm_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        exit(2);
    dev->kvm = kvm;
    dev->type = type;
    int fd = fd_install(device_release, dev); // CAUSE
    kvm_get_kvm(kvm);
    atomic_fetch_add(&kvm->created_devices, 1);
    return fd;
}

static void *vcpu_thread(void *arg) {
    kvm_ioctl_create_device(arg, 1);
    return NULL;
}

/* closes a descriptor whose number it has guessed */
static void *closer_thread(void *arg) {
    int *closed = arg;
    *closed = sys_close(1) == 0;
    return NULL;
}

int main(void) {
    static struct kvm kvm = { .users_count = 1, .memslots = { 16, 32 } };
    pthread_t vcpu, closer;
    int closed = 0;
    int vm_fd = fd_install(vm_release, &kvm);
    pthread_create(&vcpu, NULL, vcpu_thread, &kvm);
    pthread_create(&closer, NULL, closer_thread, &closed);
    pthread_join(vcpu, NULL);
    pthread_join(closer, NULL);
    int alive = !kvm.destroyed;
    if (!closed)
        sys_close(1);
    sys_close(vm_fd);
    printf("%d device, machine %s\n", atomic_load(&kvm.created_devices), alive ? "kept" : "lost");
    return alive && kvm.destroyed ? 0 : 1;
}
