// Preloaded into a server under test: a kill of the process loses of its files what a crash of the machine may lose.
//
//   write --> kept here --fsync, fdatasync--> the kernel, which outlives the process
//                       --now and then, a part from the front--> the kernel: it may write back what it likes
//
// Only files of an append-only folder that are opened for appending are kept back: others, a data set for replicas among them,
// are read through the descriptor by which they are written. Names are not kept back: a file that is created, renamed or removed is so
// at once. A file that somebody opens for reading gets what was kept back of it.
//
// VARVE_LOSE_LOG names a file that gets a line for each sync of an increment that has succeeded: the time at which it began,
// in nanoseconds of Unix time.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 4096 };

// A file that is appended to, by its descriptor.
struct kept {
  int is_open;     // the server has it open
  int is_synced;   // its syncs are logged
  dev_t dev;
  ino_t ino;
  char *bytes;     // kept back
  size_t length, room;
};

static struct kept files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seed;

static uint64_t draw(void) {
  if (seed == 0) seed = (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed;
}

// Gives the kernel this number of the bytes that are kept back. False if it does not take them.
static int give(int fd, size_t count) {
  struct kept *file = &files[fd];
  size_t done = 0;
  while (done < count) {
    long written = syscall(SYS_write, fd, file->bytes + done, count - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += (size_t)written;
  }
  memmove(file->bytes, file->bytes + done, file->length - done);
  file->length -= done;
  return done == count;
}

// Descriptors that the server has closed stay open here while something is kept back.
static void drop(int fd) {
  if (!files[fd].is_open && files[fd].length == 0 && files[fd].room > 0) {
    free(files[fd].bytes);
    memset(&files[fd], 0, sizeof files[fd]);
    syscall(SYS_close, fd);
  }
}

static int open_file(const char *path, int flags, mode_t mode) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  struct stat found;
  if (fd < 0 || fd >= FILES || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return fd;
  pthread_mutex_lock(&lock);
  for (int other = 0; other < FILES; other++) {
    struct kept *file = &files[other];
    if (other != fd && file->room > 0 && file->dev == found.st_dev && file->ino == found.st_ino) {
      give(other, file->length);
      drop(other);
    }
  }
  if ((flags & O_ACCMODE) != O_RDONLY && (flags & O_APPEND) && strstr(path, ".aof")) {
    files[fd] = (struct kept){.is_open = 1, .dev = found.st_dev, .ino = found.st_ino, .room = 1 << 16};
    files[fd].bytes = malloc(files[fd].room);
    files[fd].is_synced = strstr(path, ".incr.aof") != NULL;
  }
  pthread_mutex_unlock(&lock);
  return fd;
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_file(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_file(path, flags, mode);
}

static int is_kept(int fd) { return fd >= 0 && fd < FILES && files[fd].is_open; }

ssize_t write(int fd, const void *bytes, size_t count) {
  if (!is_kept(fd)) return syscall(SYS_write, fd, bytes, count);
  pthread_mutex_lock(&lock);
  struct kept *file = &files[fd];
  while (file->room - file->length < count) file->bytes = realloc(file->bytes, file->room *= 2);
  memcpy(file->bytes + file->length, bytes, count);
  file->length += count;
  if (draw() % 8 == 0) give(fd, draw() % (file->length + 1));
  pthread_mutex_unlock(&lock);
  return (ssize_t)count;
}

int ftruncate64(int fd, off64_t length) {
  if (is_kept(fd)) {
    pthread_mutex_lock(&lock);
    give(fd, files[fd].length);
    pthread_mutex_unlock(&lock);
  }
  return (int)syscall(SYS_ftruncate, fd, length);
}

static int sync_file(int fd, long call) {
  if (!is_kept(fd)) return (int)syscall(call, fd);
  struct timespec began;
  clock_gettime(CLOCK_REALTIME, &began);
  pthread_mutex_lock(&lock);
  // A kill may come at any byte.
  size_t first = draw() % (files[fd].length + 1);
  useconds_t pause = draw() % 1000;
  int whole = give(fd, first);
  pthread_mutex_unlock(&lock);
  usleep(pause);
  pthread_mutex_lock(&lock);
  whole = whole && give(fd, files[fd].length);
  int logs = files[fd].is_synced;
  pthread_mutex_unlock(&lock);
  const char *log = getenv("VARVE_LOSE_LOG");
  if (whole && logs && log) {
    char line[32];
    int length = snprintf(line, sizeof line, "%lld%09ld\n", (long long)began.tv_sec, began.tv_nsec);
    int out = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (syscall(SYS_write, out, line, length) != length) whole = 0;
    syscall(SYS_close, out);
  }
  if (!whole) errno = EIO;
  return whole ? 0 : -1;
}

int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }
int fsync(int fd) { return sync_file(fd, SYS_fsync); }

int close(int fd) {
  if (!is_kept(fd)) return (int)syscall(SYS_close, fd);
  pthread_mutex_lock(&lock);
  files[fd].is_open = 0;
  drop(fd);
  pthread_mutex_unlock(&lock);
  return 0;
}

// A process that ends by itself loses nothing: the kernel has it.
__attribute__((destructor)) static void end(void) {
  for (int fd = 0; fd < FILES; fd++)
    if (files[fd].room > 0) give(fd, files[fd].length);
}
