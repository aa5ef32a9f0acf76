// Calls that take names: files, directories, attributes.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include <cstring>
#include <set>
#include <string>

#include <linux/openat2.h>

#include "syscalls/suite.h"

using namespace suite;

CASE(stat_family) {
  close(make_file("stat", 1234, 1));
  char* path = place_path("stat");
  auto *a = place<struct stat>(), *b = place<struct stat>(), *c = place<struct stat>(), *d = place<struct stat>();
  EVICTED(syscall(SYS_stat, path, a));
  EVICTED(syscall(SYS_lstat, path, b));
  const int fd = static_cast<int>(EVICTED(open(path, O_RDONLY)));
  EVICTED(syscall(SYS_fstat, fd, c));
  EVICTED(syscall(SYS_newfstatat, AT_FDCWD, path, d, 0));
  result("%ld %ld %ld %ld", (long)a->st_size, (long)b->st_size, (long)c->st_size, (long)d->st_size);
  close(fd);
}

CASE(statx_file) {
  close(make_file("statx", 4321, 1));
  auto* status = place<struct statx>();
  EVICTED(statx(AT_FDCWD, place_path("statx"), 0, STATX_BASIC_STATS, status));
  result("size %llu, mode %o", status->stx_size, status->stx_mode);
}

CASE(statfs_family) {
  auto *a = place<struct statfs>(), *b = place<struct statfs>();
  EVICTED(statfs(place_path("."), a));
  const int fd = make_file("statfs", 1, 1);
  EVICTED(fstatfs(fd, b));
  check(a->f_type == b->f_type, "types differ");
  result("block size %ld", (long)b->f_bsize);
  close(fd);
}

CASE(access_family) {
  close(make_file("access", 1, 1));
  char* path = place_path("access");
  EVICTED(syscall(SYS_access, path, R_OK));
  EVICTED(syscall(SYS_faccessat, AT_FDCWD, path, W_OK));
  EVICTED(syscall(SYS_faccessat2, AT_FDCWD, path, F_OK, 0));
  evict();
  check(access(place_path("missing"), F_OK) == -1 && errno == ENOENT, "a missing file is there");
  result("accessible");
}

CASE(open_family) {
  char* path = place_path("opened");
  const int created = static_cast<int>(EVICTED(syscall(SYS_creat, path, 0600)));
  const int plain = static_cast<int>(EVICTED(syscall(SYS_open, path, O_RDONLY)));
  const int at = static_cast<int>(EVICTED(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY)));
  auto* how = place<open_how>();
  how->flags = O_RDWR;
  const int at2 = static_cast<int>(EVICTED_OR_SKIP(syscall(SYS_openat2, AT_FDCWD, path, how, sizeof *how)));
  result("opened four ways");
  for (const int fd : {created, plain, at, at2}) close(fd);
}

CASE(links_and_renames) {
  close(make_file("one", 10, 1));
  EVICTED(link(place_path("one"), place_path("two")));
  EVICTED(linkat(AT_FDCWD, place_path("one"), AT_FDCWD, place_path("three"), 0));
  EVICTED(symlink(place_string("target of the link"), place_path("soft")));
  EVICTED(symlinkat(place_string("other target"), AT_FDCWD, place_path("softer")));
  char *a = place<char>(100), *b = place<char>(100);
  EVICTED(readlink(place_path("soft"), a, 100));
  EVICTED(readlinkat(AT_FDCWD, place_path("softer"), b, 100));
  EVICTED(syscall(SYS_rename, place_path("two"), place_path("four")));
  EVICTED(renameat(AT_FDCWD, place_path("three"), AT_FDCWD, place_path("five")));
  EVICTED(syscall(SYS_renameat2, AT_FDCWD, place_path("five"), AT_FDCWD, place_path("six"), 0));
  auto* status = place<struct stat>();
  EVICTED(stat(place_path("six"), status));
  EVICTED(syscall(SYS_unlink, place_path("soft")));
  EVICTED(unlinkat(AT_FDCWD, place_path("softer"), 0));
  result("%s, %s, %ld links", a, b, (long)status->st_nlink);
}

CASE(modes_and_owners) {
  close(make_file("modes", 10, 1));
  char* path = place_path("modes");
  EVICTED(syscall(SYS_chmod, path, 0640));
  EVICTED(syscall(SYS_fchmodat, AT_FDCWD, path, 0644));
  EVICTED(syscall(SYS_chown, path, getuid(), -1));
  EVICTED(syscall(SYS_lchown, path, getuid(), -1));
  EVICTED(syscall(SYS_fchownat, AT_FDCWD, path, getuid(), -1, 0));
  EVICTED(truncate(path, 5));
  auto* status = place<struct stat>();
  EVICTED(stat(path, status));
  result("mode %o, size %ld", status->st_mode & 0777, (long)status->st_size);
}

CASE(times_of_files) {
  const int fd = make_file("times", 10, 1);
  char* path = place_path("times");
  auto* seconds = place<utimbuf>();
  seconds->actime = seconds->modtime = 1000000;
  EVICTED(syscall(SYS_utime, path, seconds));
  auto* micro = place<timeval>(2);
  micro[0].tv_sec = micro[1].tv_sec = 2000000;
  EVICTED(syscall(SYS_utimes, path, micro));
  EVICTED(syscall(SYS_futimesat, AT_FDCWD, path, micro));
  auto* nano = place<timespec>(2);
  nano[0].tv_sec = nano[1].tv_sec = 3000000;
  EVICTED(utimensat(AT_FDCWD, path, nano, 0));
  auto* status = place<struct stat>();
  EVICTED(stat(path, status));
  result("%ld", (long)status->st_mtime);
  close(fd);
}

CASE(directories) {
  EVICTED(mkdir(place_path("folder"), 0700));
  EVICTED(mkdirat(AT_FDCWD, place_path("folder/inner"), 0700));
  EVICTED(mknod(place_path("folder/pipe"), S_IFIFO | 0600, 0));
  EVICTED(syscall(SYS_mknodat, AT_FDCWD, place_path("folder/pipe2"), S_IFIFO | 0600, 0));
  const int fd = static_cast<int>(EVICTED(open(place_path("folder"), O_RDONLY | O_DIRECTORY)));
  char* buffer = place<char>(8192);
  const long n = EVICTED(syscall(SYS_getdents64, fd, buffer, 8192));
  std::set<std::string> names;
  for (long at = 0; at < n;) {
    unsigned short length = 0;
    std::memcpy(&length, buffer + at + 16, sizeof length);
    names.insert(buffer + at + 19);
    at += length;
  }
  lseek(fd, 0, SEEK_SET);
  const long old = EVICTED(syscall(SYS_getdents, fd, place<char>(8192), 8192));
  std::string all;
  for (const auto& name : names) all += name + " ";
  EVICTED(unlink(place_path("folder/pipe")));
  EVICTED(unlink(place_path("folder/pipe2")));
  EVICTED(rmdir(place_path("folder/inner")));
  EVICTED(rmdir(place_path("folder")));
  result("%ld bytes, %s, %ld bytes", n, all.c_str(), old);
  close(fd);
}

CASE(working_directory) {
  char *before = place<char>(4096), *after = place<char>(4096);
  EVICTED(syscall(SYS_getcwd, before, 4096));
  EVICTED(chdir(place_path(".")));
  EVICTED(syscall(SYS_getcwd, after, 4096));
  EVICTED(chdir(before));
  check(folder().find(after) != std::string::npos || std::strstr(after, "syscall_suite") != nullptr, "elsewhere");
  result("there and back");
}

CASE(extended_attributes) {
  const int fd = make_file("attributes", 10, 1);
  char *path = place_path("attributes"), *name = place_string("user.a_name_across_pages");
  char* value = place<char>(1500);
  fill(value, 1500, 4);
  EVICTED_OR_SKIP(setxattr(path, name, value, 1500, 0));
  EVICTED(lsetxattr(path, place_string("user.second"), value, 100, 0));
  EVICTED(fsetxattr(fd, place_string("user.third"), value, 10, 0));
  char *a = place<char>(2000), *b = place<char>(2000), *list = place<char>(1000);
  const long first = EVICTED(getxattr(path, name, a, 2000));
  const long second = EVICTED(lgetxattr(path, place_string("user.second"), b, 2000));
  const long third = EVICTED(fgetxattr(fd, place_string("user.third"), b, 2000));
  const long listed = EVICTED(listxattr(path, list, 1000));
  check(listed == EVICTED(llistxattr(path, list, 1000)) && listed == EVICTED(flistxattr(fd, list, 1000)), "lists");
  EVICTED(removexattr(path, name));
  EVICTED(lremovexattr(path, place_string("user.second")));
  EVICTED(fremovexattr(fd, place_string("user.third")));
  result("%ld %ld %ld bytes, digest %08x", first, second, third, digest(a, 1500));
  close(fd);
}

CASE(handle_of_a_file) {
  close(make_file("handle", 10, 1));
  auto* handle = reinterpret_cast<file_handle*>(place<std::uint64_t>(20));
  handle->handle_bytes = 128;
  int* mount = place<int>();
  EVICTED_OR_SKIP(name_to_handle_at(AT_FDCWD, place_path("handle"), handle, mount, 0));
  check(handle->handle_bytes > 0 && handle->handle_bytes <= 128, "no handle");
  result("a handle");
}
