/* Records every change of the files under $DISK_ROOT, and every sync, into $DISK_JOURNAL, so that the state of a disk
 * that lost power can be built from it. Preloaded into the server by run.py; read by disk.py.
 *
 * A record: operation, length of the path, offset, length of the data (1 + 2 + 8 + 4 bytes), the path, the data.
 * It is written after the operation succeeded: a sync that is not in the journal has promised nothing to anybody.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *root;
static int journal = -1;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("DISK_JOURNAL");
  root = getenv("DISK_ROOT");
  if (root && path) journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int watched(int fd, char *path) {
  char link[64];
  if (journal < 0 || fd == journal) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strncmp(path, root, strlen(root)) == 0 && !strstr(path, "-shm");
}

static void record(char operation, const char *path, uint64_t offset, const void *data, uint32_t length) {
  uint16_t named = (uint16_t)strlen(path);
  char head[15];
  memcpy(head, &operation, 1);
  memcpy(head + 1, &named, 2);
  memcpy(head + 3, &offset, 8);
  memcpy(head + 11, &length, 4);
  struct iovec parts[3] = {{head, sizeof head}, {(void *)path, named}, {(void *)data, length}};
  if (writev(journal, parts, 3) != (ssize_t)(sizeof head + named + length)) abort();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define RECORDED(call, ...)                              \
  char path[PATH_MAX];                                   \
  if (!watched(fd, path)) return call;                   \
  pthread_mutex_lock(&order);                            \
  __auto_type done = call;                               \
  if (done >= 0) record(__VA_ARGS__);                    \
  pthread_mutex_unlock(&order);                          \
  return done

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  RECORDED(REAL(pwrite)(fd, data, size, at), 'w', path, (uint64_t)at, data, (uint32_t)done);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  RECORDED(REAL(pwrite64)(fd, data, size, at), 'w', path, (uint64_t)at, data, (uint32_t)done);
}
ssize_t write(int fd, const void *data, size_t size) {
  RECORDED(REAL(write)(fd, data, size), 'w', path, (uint64_t)(lseek(fd, 0, SEEK_CUR) - done), data, (uint32_t)done);
}
int ftruncate(int fd, off_t size) {
  RECORDED(REAL(ftruncate)(fd, size), 't', path, (uint64_t)size, "", 0);
}
int ftruncate64(int fd, off64_t size) {
  RECORDED(REAL(ftruncate64)(fd, size), 't', path, (uint64_t)size, "", 0);
}
int fsync(int fd) {
  RECORDED(REAL(fsync)(fd), 's', path, 0, "", 0);
}
int fdatasync(int fd) {
  RECORDED(REAL(fdatasync)(fd), 's', path, 0, "", 0);
}
int unlink(const char *path) {
  int done = REAL(unlink)(path);
  if (done == 0 && journal >= 0 && strncmp(path, root, strlen(root)) == 0) record('u', path, 0, "", 0);
  return done;
}
