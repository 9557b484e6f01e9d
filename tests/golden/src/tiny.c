#define CALL(n, a, b, c, d, e) ({ long r; register long r10 __asm__("r10") = (long)(d); register long r8 __asm__("r8") = (long)(e); \
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory"); r; })
static volatile int done, shared[64], gone;
static char stack[4096] __attribute__((aligned(16)));
static void child(void) { for (int i = 0; i < 40; i++) { __atomic_fetch_add(&shared[i], 1, 5); if (i % 8 == 0) CALL(24, 0, 0, 0, 0, 0); } done = 1; CALL(60, 0, 0, 0, 0, 0); }
void _start(void) {
  void **top = (void **)(stack + 4096) - 1; *top = (void *)child;
  long r; register long r10 __asm__("r10") = (long)&gone; register long r8 __asm__("r8") = 0;
  gone = 1;
  __asm__ volatile("syscall\n test %%eax,%%eax\n jnz 1f\n pop %%rax\n call *%%rax\n1:" : "=a"(r) : "a"(56), "D"(0x250f00), "S"(top), "d"(&gone), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  for (int i = 63; i >= 0; i--) __atomic_fetch_add(&shared[i], 1, 5);
  int v; while ((v = gone)) CALL(202, &gone, 0, v, 0, 0);
  CALL(1, 1, "both\n", 5, 0, 0);
  CALL(231, done ? 0 : 1, 0, 0, 0, 0);
}
