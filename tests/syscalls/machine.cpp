// What a program asks the kernel about itself and the machine: limits, scheduling, identity, randomness.
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

CASE(names_of_the_machine) {
  auto* names = place<utsname>();
  EVICTED(syscall(SYS_uname, names));
  result("%s on %s", names->sysname, names->machine);
}

CASE(sysinfo_memory) {
  auto* information = place<struct sysinfo>();
  EVICTED(sysinfo(information));
  check(information->totalram > 0 && information->mem_unit > 0, "no memory");
  result("has memory");
}

CASE(random_bytes) {
  char* bytes = place<char>(10000);
  const long n = EVICTED(syscall(SYS_getrandom, bytes, 10000, 0));
  int zeros = 0;
  for (int i = 0; i < 10000; ++i) zeros += bytes[i] == 0 ? 1 : 0;
  check(zeros < 200, "not random");
  result("%ld bytes", n);
}

CASE(limits) {
  auto *a = place<rlimit>(), *b = place<rlimit>(), *c = place<rlimit>();
  EVICTED(syscall(SYS_getrlimit, RLIMIT_CORE, a));
  EVICTED(syscall(SYS_setrlimit, RLIMIT_CORE, a));
  EVICTED(syscall(SYS_prlimit64, 0, RLIMIT_CORE, a, b));
  EVICTED(syscall(SYS_prlimit64, 0, RLIMIT_CORE, nullptr, c));
  check(a->rlim_cur == b->rlim_cur && b->rlim_cur == c->rlim_cur, "the limits differ");
  result("the same limits");
}

CASE(scheduling) {
  auto* parameters = place<sched_param>();
  EVICTED(syscall(SYS_sched_getparam, 0, parameters));
  EVICTED(syscall(SYS_sched_setparam, 0, parameters));
  EVICTED(syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, parameters));
  auto* interval = place<timespec>();
  EVICTED(syscall(SYS_sched_rr_get_interval, 0, interval));
  auto* attributes = place<std::uint32_t>(14);
  EVICTED(syscall(SYS_sched_getattr, 0, attributes, 56, 0));
  const auto bytes = attributes[0];
  EVICTED(syscall(SYS_sched_setattr, 0, attributes, 0));
  result("priority %d, policy %u, %u bytes", parameters->sched_priority, attributes[1], bytes);
}

CASE(affinity) {
  auto *set = place<cpu_set_t>(4), *back = place<cpu_set_t>(4);
  const long n = EVICTED(syscall(SYS_sched_getaffinity, 0, sizeof *set * 4, set));
  EVICTED(syscall(SYS_sched_setaffinity, 0, n, set));
  EVICTED(syscall(SYS_sched_getaffinity, 0, sizeof *set * 4, back));
  check(std::memcmp(set, back, n) == 0, "the sets differ");
  auto *processor = place<unsigned>(), *node = place<unsigned>();
  EVICTED(syscall(SYS_getcpu, processor, node, nullptr));
  check(CPU_ISSET_S(*processor, sizeof *set * 4, set), "on another processor");
  result("the same set");
}

CASE(identity) {
  auto *a = place<uid_t>(3), *b = place<gid_t>(3);
  EVICTED(syscall(SYS_getresuid, &a[0], &a[1], &a[2]));
  EVICTED(syscall(SYS_getresgid, &b[0], &b[1], &b[2]));
  check(a[0] == getuid() && b[1] == getegid(), "somebody else");
  auto* groups = place<gid_t>(3000);
  const long n = EVICTED(syscall(SYS_getgroups, 3000, groups));
  const long alone = EVICTED(syscall(SYS_getgroups, 0, nullptr));
  check(n == alone, "the numbers of groups differ");
  result("user %u", a[0]);
}

CASE(capabilities) {
  auto* header = place<__user_cap_header_struct>();
  auto* data = place<__user_cap_data_struct>(2);
  header->version = _LINUX_CAPABILITY_VERSION_3;
  EVICTED(syscall(SYS_capget, header, data));
  header->pid = 0;
  EVICTED_OR_SKIP(syscall(SYS_capset, header, data));
  result("effective %08x", data[0].effective);
}

CASE(filled_ahead) {
  constexpr std::size_t kBytes = 256 * 4096;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  auto* memory = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0));
  check(memory != MAP_FAILED, "mmap");
  fill(memory, kBytes, 71);
  EVICTED(madvise(memory + 4096, 4096, MADV_DONTNEED));
  const bool zeros = memory[5000] == 0;
  evict();
  result("%s, digest %08x", zeros ? "zeros" : "not discarded", digest(memory, kBytes));
  munmap(memory, kBytes);
}

CASE(residency) {
  void* memory = mmap(nullptr, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  static_cast<char*>(memory)[5 * 4096] = 1;
  auto* resident = place<unsigned char>(64);
  EVICTED(mincore(memory, 64 * 4096, resident));
  result("page 5: %d, page 6: %d", resident[5] & 1, resident[6] & 1);
  munmap(memory, 64 * 4096);
}

CASE(thread_base) {
  auto* base = place<unsigned long>();
  EVICTED(syscall(SYS_arch_prctl, 0x1003, base));
  check(*base != 0, "no base");
  result("there is one");
}

CASE(memory_policy) {
  int* mode = place<int>();
  auto* nodes = place<unsigned long>(16);
  EVICTED_OR_SKIP(syscall(SYS_get_mempolicy, mode, nodes, 1024, nullptr, 0));
  EVICTED(syscall(SYS_set_mempolicy, 0, nullptr, 0));
  result("mode %d", *mode);
  constexpr int kOfPage = 3;  // MPOL_F_NODE | MPOL_F_ADDR
  char* const page = place<char>(4096);
  EVICTED(syscall(SYS_get_mempolicy, mode, nullptr, 0, page + 4000, kOfPage));
  result("on node %d", *mode);
}

CASE(keys) {
  char *type = place_string("user"), *name = place_string("syscall_suite key"), *payload = place<char>(500);
  fill(payload, 500, 51);
  const long key = EVICTED_OR_SKIP(syscall(SYS_add_key, type, name, payload, 500, -2));
  char* back = place<char>(500);
  const long n = EVICTED(syscall(SYS_keyctl, 11, key, back, 500));
  char* description = place<char>(200);
  EVICTED(syscall(SYS_keyctl, 6, key, description, 200));
  syscall(SYS_keyctl, 3, key);
  result("%ld bytes, digest %08x, %s", n, digest(back, 500), std::strrchr(description, ';') + 1);
}
