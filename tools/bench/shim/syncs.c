// Preloaded into a server under test: the file that VARVE_SYNCS names grows by a byte with each fsync and fdatasync.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int log_file = -1;

__attribute__((constructor)) static void open_log(void) {
  const char *path = getenv("VARVE_SYNCS");
  if (path) log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void count(void) {
  if (log_file >= 0 && write(log_file, "s", 1) < 0) {
    // One is missing: the bench has less syncs than there were.
  }
}

int fsync(int file) {
  count();
  return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  count();
  return (int)syscall(SYS_fdatasync, file);
}
