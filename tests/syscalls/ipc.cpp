// System V and POSIX queues, semaphores and shared memory; futexes.
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

struct Message {
  long type;
  char text[5000];
};

void send_message(void* queue) {
  static Message message;
  message.type = 3;
  fill(message.text, sizeof message.text, 31);
  must(msgsnd(*static_cast<int*>(queue), &message, sizeof message.text, 0), "msgsnd");
}

void raise_semaphore(void* set) {
  sembuf up{0, 1, 0};
  must(semop(*static_cast<int*>(set), &up, 1), "semop");
}

void wake(void* word) {
  static_cast<std::atomic<int>*>(word)->store(1);
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

timespec* ten_seconds() {
  auto* time = place<timespec>();
  time->tv_sec = 10;
  return time;
}

}  // namespace

CASE(message_queue_while_blocked) {
  int queue = static_cast<int>(must(msgget(IPC_PRIVATE, 0600), "msgget"));
  auto* got = place<Message>();
  long n = 0;
  {
    Later sender(send_message, &queue);
    n = EVICTED(msgrcv(queue, got, sizeof got->text, 0, 0));
  }
  auto* status = place<msqid_ds>();
  EVICTED(msgctl(queue, IPC_STAT, status));
  const auto* out = got;
  EVICTED(msgsnd(queue, out, 100, 0));
  must(msgctl(queue, IPC_RMID, nullptr), "msgctl");
  result("%ld bytes, type %ld, digest %08x, %lu left", n, got->type, digest(got->text, 5000),
         (unsigned long)status->msg_qnum);
}

CASE(semaphores_while_blocked) {
  int set = static_cast<int>(must(semget(IPC_PRIVATE, 3, 0600), "semget"));
  auto *values = place<unsigned short>(3), *back = place<unsigned short>(3);
  values[1] = 11, values[2] = 22;
  EVICTED(semctl(set, 0, SETALL, values));
  auto* down = place<sembuf>(2);
  down[0] = {0, -1, 0};
  down[1] = {1, -1, 0};
  {
    Later raiser(raise_semaphore, &set);
    EVICTED(semop(set, down, 2));
  }
  down[0] = {2, -2, 0};
  EVICTED(semtimedop(set, down, 1, ten_seconds()));
  EVICTED(semctl(set, 0, GETALL, back));
  auto* status = place<semid_ds>();
  EVICTED(semctl(set, 0, IPC_STAT, status));
  must(semctl(set, 0, IPC_RMID), "semctl");
  result("%u %u %u, %lu semaphores", back[0], back[1], back[2], (unsigned long)status->sem_nsems);
}

CASE(shared_memory_segment) {
  const int segment = static_cast<int>(must(shmget(IPC_PRIVATE, 12345, 0600), "shmget"));
  auto* status = place<shmid_ds>();
  EVICTED(shmctl(segment, IPC_STAT, status));
  EVICTED(shmctl(segment, IPC_SET, status));
  must(shmctl(segment, IPC_RMID, nullptr), "shmctl");
  result("%lu bytes", (unsigned long)status->shm_segsz);
}

CASE(posix_message_queue) {
  char text_of_name[32];
  std::snprintf(text_of_name, sizeof text_of_name, "syscall_suite_%d",
                static_cast<int>(getpid()));  // others run beside
  char* name = place_string(text_of_name);
  auto *wanted = place<mq_attr>(), *now = place<mq_attr>();
  wanted->mq_maxmsg = 3;
  wanted->mq_msgsize = 6000;
  syscall(SYS_mq_unlink, name);
  const int queue =
      static_cast<int>(EVICTED_OR_SKIP(syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_EXCL, 0600, wanted)));
  char *text = place<char>(6000), *back = place<char>(6000);
  fill(text, 6000, 32);
  auto* priority = place<unsigned>();
  EVICTED(syscall(SYS_mq_timedsend, queue, text, 6000, 5, ten_seconds()));
  EVICTED(syscall(SYS_mq_getsetattr, queue, nullptr, now));
  const long n = EVICTED(syscall(SYS_mq_timedreceive, queue, back, 6000, priority, nullptr));
  EVICTED(syscall(SYS_mq_unlink, name));
  result("%ld bytes, priority %u, digest %08x, %ld waiting", n, *priority, digest(back, 6000), now->mq_curmsgs);
  close(queue);
}

CASE(futex_wait_while_blocked) {
  auto* word = place<std::atomic<int>>();
  Later waker(wake, word);
  evict();
  const long answer = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, ten_seconds(), nullptr, 0);
  check(answer == 0 || errno == EAGAIN, "futex");
  result("woken, value %d", word->load());
}

CASE(futex_wait_times_out) {
  int* word = place<int>();
  auto* time = place<timespec>();
  time->tv_nsec = 1000000;
  evict();
  const long answer = syscall(SYS_futex, word, FUTEX_WAIT, 0, time, nullptr, 0);
  result("%ld, %s", answer, std::strerror(errno));
}

CASE(futex_wake_and_requeue) {
  int *one = place<int>(), *two = place<int>();
  *two = 5;
  const long woken = EVICTED(syscall(SYS_futex, one, FUTEX_WAKE, 1, nullptr, nullptr, 0));
  const long moved = EVICTED(syscall(SYS_futex, one, FUTEX_CMP_REQUEUE, 1, 1, two, 0));
  const long changed =
      EVICTED(syscall(SYS_futex, one, FUTEX_WAKE_OP, 1, 1, two, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 5)));
  result("%ld %ld %ld, value %d", woken, moved, changed, *two);
}

CASE(futex_with_priority_inheritance) {
  auto* word = place<unsigned>();
  EVICTED(syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, nullptr, nullptr, 0));
  const bool mine = (*word & FUTEX_TID_MASK) == static_cast<unsigned>(gettid());
  EVICTED(syscall(SYS_futex, word, FUTEX_UNLOCK_PI, 0, nullptr, nullptr, 0));
  result("locked %d, after %u", mine ? 1 : 0, *word);
}

CASE(robust_mutex_of_a_dead_thread) {
  auto* mutex = place<pthread_mutex_t>();
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
  pthread_t thread;
  const auto lock_and_end = [](void* which) -> void* {
    pthread_mutex_lock(static_cast<pthread_mutex_t*>(which));
    evict();
    return nullptr;
  };
  check(pthread_create(&thread, nullptr, lock_and_end, mutex) == 0, "pthread_create");
  pthread_join(thread, nullptr);
  evict();
  const int answer = pthread_mutex_lock(mutex);
  result("%s", std::strerror(answer));
  pthread_mutex_consistent(mutex);
  pthread_mutex_unlock(mutex);
  pthread_mutexattr_destroy(&attributes);
}

CASE(robust_list_address) {
  auto* head = place<void*>();
  auto* bytes = place<std::size_t>();
  EVICTED(syscall(SYS_get_robust_list, 0, head, bytes));
  check(*head != nullptr, "no list");
  result("%zu bytes", *bytes);
}

CASE(futex_waitv_times_out) {
  struct Waiter {
    std::uint64_t value, address;
    std::uint32_t flags, reserved;
  };
  auto* waiters = place<Waiter>(2);
  for (int i = 0; i < 2; ++i) waiters[i] = {0, reinterpret_cast<std::uint64_t>(place<int>()), 2, 0};
  auto* until = place<timespec>();
  clock_gettime(CLOCK_MONOTONIC, until);
  evict();
  const long answer = syscall(449, waiters, 2, 0, until, CLOCK_MONOTONIC);
  if (answer == -1 && errno == ENOSYS) throw Skipped{"no such call"};
  result("%ld, %s", answer, std::strerror(errno));
}
