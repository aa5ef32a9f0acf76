#include "run/runtime/direct.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "run/runtime/gate_entry.h"
#include "run/runtime/memory_file.h"
#include "run/runtime/process.h"
#include "run/runtime/real.h"
#include "run/syscalls/syscall_table.h"

namespace comex::runtime {
namespace {

using syscalls::Call;

std::atomic<bool> allowed{false};
std::atomic<bool> forbidden{false};

constinit Real<ssize_t(int, void*, size_t)> real_read("read");
constinit Real<ssize_t(int, const void*, size_t)> real_write("write");
constinit Real<ssize_t(int, void*, size_t, off_t)> real_pread("pread");
constinit Real<ssize_t(int, const void*, size_t, off_t)> real_pwrite("pwrite");
constinit Real<ssize_t(int, void*, size_t, int)> real_recv("recv");
constinit Real<ssize_t(int, const void*, size_t, int)> real_send("send");
constinit Real<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)> real_recvfrom("recvfrom");
constinit Real<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)> real_sendto("sendto");
constinit Real<int(pollfd*, nfds_t, int)> real_poll("poll");
constinit Real<int(int, epoll_event*, int, int)> real_epoll_wait("epoll_wait");
constinit Real<int()> real_sched_yield("sched_yield");
constinit Real<int(pthread_t)> real_pthread_cancel("pthread_cancel");

[[gnu::constructor(101)]] void find_all() {
  (void)real_read.find(), (void)real_write.find(), (void)real_pread.find(), (void)real_pwrite.find();
  (void)real_recv.find(), (void)real_send.find(), (void)real_recvfrom.find(), (void)real_sendto.find();
  (void)real_poll.find(), (void)real_epoll_wait.find(), (void)real_sched_yield.find();
  (void)real_pthread_cancel.find();
}

// Memory of a call, of which there is one piece.
struct Memory {
  const void* address;
  std::uint64_t bytes;
  bool kernel_writes;
};

constexpr std::uint64_t kMostPages = 64;  // longer ones take their time anyway
constexpr std::int64_t kNotDirect = -513;

// All of it is there, and nobody is about to take it away. REQUIRES: it is pinned.
bool is_settled(PageRun pages, bool write) noexcept {
  for (PageNo page = pages.first; page < pages.end(); page = page + 1) {
    if (!process.pager->table().load(page).settled(write)) return false;
  }
  return true;
}

// The thread's state, if it may go directly now. Not in the runtime's own code, which has its selector open.
ThreadState* direct_thread() noexcept {
  if (!allowed.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  ThreadState* const state = this_thread();
  return state != nullptr && state->selector == 1 && !state->waiting ? state : nullptr;
}

// A signal that came meanwhile is handled here: any system call that is trapped will do.
[[gnu::noinline]] void handle_aside() noexcept {
  (void)syscall(SYS_getppid);
}

// `handled`: a handler of the program's has run meanwhile.
std::int64_t once(ThreadState& state, const Call& call, PageRun pages, bool write, bool& handled) noexcept {
  const auto& a = call.arguments;
  std::int64_t result = kNotDirect;
  state.waiting = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  {
    PinFrame pins(*process.threads, state);
    pins.add(pages);
    if (is_settled(pages, write)) {
      result = comex_gate_wait(call.number, a[0], a[1], a[2], a[3], a[4], a[5], &state.aside.signal);
    }
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  state.waiting = false;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  handled = state.aside.signal != 0;
  if (handled) [[unlikely]] {
    handle_aside();
  } else if (result == -EINTR && state.cut_short) {
    // By a signal that the program has blocked. The gate has the kernel block it: a time-out begins anew once, not with
    // each of them.
    state.cut_short = false;
    return kNotDirect;
  }
  return result;
}

// What the kernel answered; kNotDirect: it is for libc to ask.
std::int64_t directly(const Call& call, const Memory& memory) noexcept {
  ThreadState* const state = direct_thread();
  if (state == nullptr) [[likely]]
    return kNotDirect;
  const PageRun pages = PageRun::of(reinterpret_cast<std::uint64_t>(memory.address), memory.bytes);
  // A length that no memory has is for the kernel to cut, which the gate knows of.
  const bool senseless = pages.count == 0 && memory.bytes != 0;
  if (senseless || pages.count > kMostPages || state->pins_used == ThreadState::kPins) return kNotDirect;
  std::int64_t result = 0;
  bool handled = false;
  do {
    result = once(*state, call, pages, memory.kernel_writes, handled);
  } while (result == kMakeAgain && allowed.load(std::memory_order_relaxed));
  if (result == -EIO && touched_as_file(call)) return kNotDirect;
  if (result != kNotDirect) PagerStats::add(state->tally->direct_calls);
  // Called out of it: libc is to make it, and to look whether the thread is cancelled.
  const bool cut = (result == -EINTR && !handled) || result == kMakeAgain;
  const bool called_out = cut && !allowed.load(std::memory_order_relaxed);
  return called_out ? kNotDirect : result;
}

std::uint64_t word(const void* pointer) noexcept {
  return reinterpret_cast<std::uint64_t>(pointer);
}
std::uint64_t word(int number) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
}

template <typename Result, typename Otherwise>
Result answer(std::int64_t result, Otherwise&& otherwise) noexcept {
  if (result == kNotDirect) return otherwise();
  if (result >= 0) return static_cast<Result>(result);
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

void allow_direct() noexcept {
  if (forbidden.load(std::memory_order_relaxed) || process.memory.delivery() != Delivery::inline_signal) return;
  allowed.store(true, std::memory_order_release);
}

void forbid_direct() noexcept {
  forbidden.store(true, std::memory_order_relaxed);
  allowed.store(false, std::memory_order_seq_cst);
}

void expect_filters() noexcept {
  process.filtered.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // Signals::action does the opposite: one of both sees the other
  if (signals.handles(SIGSYS)) forbid_direct();
}

bool is_call_out(const siginfo_t& info) noexcept {
  return info.si_code == SI_QUEUE && info.si_value.sival_ptr == &forbidden;
}

}  // namespace comex::runtime

using namespace comex::runtime;

COMEX_TAKEN_OVER ssize_t read(int fd, void* buffer, size_t bytes) {
  return answer<ssize_t>(directly({SYS_read, {word(fd), word(buffer), bytes}}, {buffer, bytes, true}),
                         [&] { return real_read(fd, buffer, bytes); });
}

COMEX_TAKEN_OVER ssize_t write(int fd, const void* buffer, size_t bytes) {
  return answer<ssize_t>(directly({SYS_write, {word(fd), word(buffer), bytes}}, {buffer, bytes, false}),
                         [&] { return real_write(fd, buffer, bytes); });
}

COMEX_TAKEN_OVER ssize_t pread(int fd, void* buffer, size_t bytes, off_t offset) {
  return answer<ssize_t>(directly({SYS_pread64, {word(fd), word(buffer), bytes, static_cast<std::uint64_t>(offset)}},
                                  {buffer, bytes, true}),
                         [&] { return real_pread(fd, buffer, bytes, offset); });
}
COMEX_TAKEN_OVER ssize_t pread64(int fd, void* buffer, size_t bytes, off64_t offset) {
  return pread(fd, buffer, bytes, offset);
}

COMEX_TAKEN_OVER ssize_t pwrite(int fd, const void* buffer, size_t bytes, off_t offset) {
  return answer<ssize_t>(directly({SYS_pwrite64, {word(fd), word(buffer), bytes, static_cast<std::uint64_t>(offset)}},
                                  {buffer, bytes, false}),
                         [&] { return real_pwrite(fd, buffer, bytes, offset); });
}
COMEX_TAKEN_OVER ssize_t pwrite64(int fd, const void* buffer, size_t bytes, off64_t offset) {
  return pwrite(fd, buffer, bytes, offset);
}

COMEX_TAKEN_OVER ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  return answer<ssize_t>(directly({SYS_recvfrom, {word(fd), word(buffer), bytes, word(flags)}}, {buffer, bytes, true}),
                         [&] { return real_recv(fd, buffer, bytes, flags); });
}

COMEX_TAKEN_OVER ssize_t send(int fd, const void* buffer, size_t bytes, int flags) {
  return answer<ssize_t>(directly({SYS_sendto, {word(fd), word(buffer), bytes, word(flags)}}, {buffer, bytes, false}),
                         [&] { return real_send(fd, buffer, bytes, flags); });
}

COMEX_TAKEN_OVER ssize_t recvfrom(int fd, void* buffer, size_t bytes, int flags, sockaddr* address,
                                  socklen_t* address_bytes) {
  const auto libc = [&] { return real_recvfrom(fd, buffer, bytes, flags, address, address_bytes); };
  if (address != nullptr || address_bytes != nullptr) return libc();
  return answer<ssize_t>(directly({SYS_recvfrom, {word(fd), word(buffer), bytes, word(flags)}}, {buffer, bytes, true}),
                         libc);
}

COMEX_TAKEN_OVER ssize_t sendto(int fd, const void* buffer, size_t bytes, int flags, const sockaddr* address,
                                socklen_t address_bytes) {
  const auto libc = [&] { return real_sendto(fd, buffer, bytes, flags, address, address_bytes); };
  if (address != nullptr) return libc();
  return answer<ssize_t>(directly({SYS_sendto, {word(fd), word(buffer), bytes, word(flags)}}, {buffer, bytes, false}),
                         libc);
}

COMEX_TAKEN_OVER int poll(pollfd* descriptors, nfds_t count, int timeout) {
  return answer<int>(
      directly({SYS_poll, {word(descriptors), count, word(timeout)}}, {descriptors, count * sizeof(pollfd), true}),
      [&] { return real_poll(descriptors, count, timeout); });
}

COMEX_TAKEN_OVER int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  const std::uint64_t count = most > 0 ? static_cast<std::uint64_t>(most) : 0;
  return answer<int>(directly({SYS_epoll_wait, {word(fd), word(events), word(most), word(timeout)}},
                              {events, count * sizeof(epoll_event), true}),
                     [&] { return real_epoll_wait(fd, events, most, timeout); });
}

// Threads that wait for others call it over and over; trapped, each call would take a lock that their faults need.
COMEX_TAKEN_OVER int sched_yield() noexcept {
  return answer<int>(directly({SYS_sched_yield, {}}, {nullptr, 0, false}), [] { return real_sched_yield(); });
}

// Cancellation is libc's: a thread in one of its functions looks for it, one in ours does not.
COMEX_TAKEN_OVER int pthread_cancel(pthread_t thread) {
  const bool was = process.threads != nullptr && process.memory.delivery() == comex::Delivery::inline_signal;
  forbid_direct();
  const int result = real_pthread_cancel(thread);
  sigval what{};
  what.sival_ptr = &forbidden;
  if (was && result == 0) (void)pthread_sigqueue(thread, SIGSYS, what);
  return result;
}
