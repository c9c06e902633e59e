// Preloaded into a server under test: says on standard error when a handler of a signal asks the C library for memory, or takes
// one of its locks. Such a call may find the library in the middle of another one, and wait for ever.
//
//   sigaction(signal, handler) --> the handler is kept here, and `around` put in its place
//   signal --> around: this thread is inside --> handler
//   malloc, free, pthread_mutex_lock and the like, inside --> a line on standard error, and the call goes on

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

typedef void (*handler)(int, siginfo_t *, void *);

static handler kept[NSIG];
// No call of the library finds it: the thread's own block has it from the start.
static __thread int inside __attribute__((tls_model("initial-exec")));

static void note(const char *name) {
  if (!inside) return;
  static const char words[] = "in a handler of a signal: ";
  (void)!write(2, words, sizeof words - 1);
  (void)!write(2, name, strlen(name));
  (void)!write(2, "\n", 1);
}

static void around(int signal, siginfo_t *info, void *context) {
  inside++;
  kept[signal](signal, info, context);
  inside--;
}

int sigaction(int signal, const struct sigaction *wanted, struct sigaction *before) {
  int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
  if (!wanted || !(wanted->sa_flags & SA_SIGINFO) || signal <= 0 || signal >= NSIG) return next(signal, wanted, before);
  struct sigaction own = *wanted;
  kept[signal] = wanted->sa_sigaction;
  own.sa_sigaction = around;
  return next(signal, &own, before);
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t bytes) {
  note("malloc");
  return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  note("calloc");
  return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
  note("realloc");
  return __libc_realloc(old, bytes);
}

int posix_memalign(void **made, size_t alignment, size_t bytes) {
  note("posix_memalign");
  *made = __libc_memalign(alignment, bytes);
  return *made ? 0 : 12;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  note("aligned_alloc");
  return __libc_memalign(alignment, bytes);
}

void free(void *old) {
  note("free");
  __libc_free(old);
}

int pthread_mutex_lock(pthread_mutex_t *lock) {
  // The first call may come before this library can ask for the next one.
  static int (*next)(pthread_mutex_t *);
  note("pthread_mutex_lock");
  if (!next) next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  return next(lock);
}
