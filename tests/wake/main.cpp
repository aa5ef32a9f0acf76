// A program whose threads wait in system calls of many kinds, with their buffers on the heap, while the main thread
// uses so much memory that comex has to take the process over. Then each call is given what it waits for. None may have
// been interrupted, and all that was written must be there. Prints one line per thing that is wrong, and a last one.
//
//   wake_load MEBIBYTES [MOST]
//
// MOST: of that memory, which comes from operator new, how much may be in RAM in the end, in MiB.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include "wake/resident.h"

namespace {

constexpr std::size_t kPage = 4096;

std::atomic<int> wrong{0};

void expect(bool right, const char* what) {
  if (right) return;
  ++wrong;
  std::printf("wrong: %s (%s)\n", what, std::strerror(errno));
}

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { expect(pipe(ends) == 0, "pipe"); }
  [[nodiscard]] int out() const { return ends[0]; }
  void give(char value) const {
    const std::vector<char> page(kPage, value);
    expect(write(ends[1], page.data(), page.size()) == static_cast<ssize_t>(kPage), "write to a pipe");
  }
};

bool is_all(const char* memory, std::size_t bytes, char value) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (memory[i] != value) return false;
  return true;
}

// Into the middle of a buffer of which the rest was written before.
void read_into_the_heap(const Pipe& from) {
  std::vector<char> memory(64 * kPage, 'x');
  char* const middle = memory.data() + 20 * kPage + 100;
  expect(read(from.out(), middle, kPage) == static_cast<ssize_t>(kPage), "read");
  expect(is_all(middle, kPage, 'r'), "what was read");
  expect(is_all(memory.data(), 20 * kPage + 100, 'x'), "what lies before");
}

void readv_into_the_heap(const Pipe& from) {
  std::vector<char> memory(64 * kPage, 'x');
  std::vector<iovec> parts;
  for (std::size_t i = 0; i < 4; ++i) parts.push_back({memory.data() + i * 9 * kPage, kPage / 4});
  expect(readv(from.out(), parts.data(), 4) == static_cast<ssize_t>(kPage), "readv");
  for (const iovec& part : parts) expect(is_all(static_cast<char*>(part.iov_base), kPage / 4, 'v'), "what readv read");
}

void poll_on_the_heap(const Pipe& from) {
  std::vector<pollfd> set(100, pollfd{-1, 0, 0});
  set[77] = pollfd{from.out(), POLLIN, 0};
  expect(poll(set.data(), set.size(), 60'000) == 1 && set[77].revents == POLLIN, "poll");
}

void select_one(const Pipe& from) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(from.out(), &set);
  expect(select(from.out() + 1, &set, nullptr, nullptr, nullptr) == 1, "select");
}

void epoll_on_the_heap(const Pipe& from) {
  const int epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 42;
  expect(epoll_ctl(epoll, EPOLL_CTL_ADD, from.out(), &event) == 0, "epoll_ctl");
  std::vector<epoll_event> events(500);
  expect(epoll_wait(epoll, events.data(), 500, -1) == 1 && events[0].data.u64 == 42, "epoll_wait");
  close(epoll);
}

void receive(int socket) {
  std::vector<char> memory(64 * kPage, 'x');
  expect(recv(socket, memory.data() + 5000, 1000, MSG_WAITALL) == 1000, "recv");
  expect(is_all(memory.data() + 5000, 1000, 's'), "what was received");
}

void sleep_a_little() {
  const timespec time{1, 0};
  expect(nanosleep(&time, nullptr) == 0, "nanosleep");
}

void wait_for_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  siginfo_t info{};
  expect(sigwaitinfo(&set, &info) == SIGUSR1, "sigwaitinfo");
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t pages = (count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 64) * 256;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // as programs do that wait for signals in a thread of their own

  const Pipe for_read, for_readv, for_poll, for_select, for_epoll;
  int sockets[2] = {-1, -1};
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);

  std::vector<std::thread> threads;
  threads.emplace_back([&] { read_into_the_heap(for_read); });
  threads.emplace_back([&] { readv_into_the_heap(for_readv); });
  threads.emplace_back([&] { poll_on_the_heap(for_poll); });
  threads.emplace_back([&] { select_one(for_select); });
  threads.emplace_back([&] { epoll_on_the_heap(for_epoll); });
  threads.emplace_back([&] { receive(sockets[0]); });
  threads.emplace_back([] { sleep_a_little(); });
  threads.emplace_back([] { wait_for_signal(); });
  threads.emplace_back([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return told; });
  });
  threads.emplace_back([&] { expect(sem_wait(&semaphore) == 0, "sem_wait"); });

  std::vector<std::uint64_t> memory(pages * kPage / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = i * 0x9E3779B97F4A7C15;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) bad += memory[i] != i * 0x9E3779B97F4A7C15;
  expect(bad == 0, "memory");
  if (count > 2) expect(is_within(std::strtoull(arguments[2], nullptr, 10) << 20), "the budget");

  for_read.give('r');
  for_readv.give('v');
  for_poll.give('p');
  for_select.give('l');
  for_epoll.give('e');
  const std::vector<char> message(1000, 's');
  for (std::size_t sent = 0; sent < message.size(); sent += 100) send(sockets[1], message.data() + sent, 100, 0);
  kill(getpid(), SIGUSR1);
  {
    const std::lock_guard lock(mutex);
    told = true;
  }
  changed.notify_all();
  sem_post(&semaphore);
  for (std::thread& thread : threads) thread.join();
  std::printf("%d wrong\n", wrong.load());
  return wrong == 0 ? 0 : 1;
}
