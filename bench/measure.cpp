#include "bench/measure.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <new>
#include <thread>

#include "bench/interrupt.h"

namespace comex::bench {

namespace {

constexpr std::uint32_t kPagesChecked = 256;
constexpr int kWarmUpShare = 10;  // a tenth of a slice goes by before the first sample

Error failure(const Peer& peer, std::string_view what, Errc code) {
  if (interrupted()) return interruption();
  return Error{code, fmt::format("{}: {} failed: {}", peer.name(), what, to_string(code))};
}

std::string_view verb(Direction direction) {
  return direction == Direction::read ? "read" : "write";
}

// A random multiple of `count` within the set.
std::uint32_t pick(Random& random, std::uint32_t set_pages, std::uint32_t count) {
  return random.below(set_pages / count) * count;
}

// What one thread of a throughput slice does and finds.
struct Worker {
  std::unique_ptr<PageBuffer> buffer;
  std::unique_ptr<Batches> batches;  // goes first: batches under way own the buffer
  std::uint64_t finished = 0;
  Errc result = Errc::ok;
  Clock::time_point ended{};

  void run(std::uint64_t seed, std::uint32_t set_pages, Clock::time_point until) {
    Random random(seed);
    const auto start = [&](unsigned slot) {
      return batches->start(slot, pick(random, set_pages, kBatchPages), buffer->page(slot * kBatchPages));
    };
    unsigned begun = 0;
    while (result == Errc::ok && begun < kBatchesInFlight) result = start(begun++);
    unsigned slot = 0;
    for (; result == Errc::ok && Clock::now() < until && !interrupted(); slot = (slot + 1) % kBatchesInFlight) {
      result = batches->finish(slot);
      if (result != Errc::ok) break;
      ++finished;
      result = start(slot);
    }
    for (unsigned left = begun; result == Errc::ok && left > 0; --left, slot = (slot + 1) % kBatchesInFlight) {
      result = batches->finish(slot);
      ++finished;
    }
    if (result == Errc::ok) result = batches->end();
    ended = Clock::now();
  }
};

}  // namespace

PageBuffer::PageBuffer(std::uint32_t pages, Peer* peer) : peer_(peer), bytes_(std::size_t{pages} << kPageShift) {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  std::memset(memory_, 0xa5, bytes_);
  if (peer_ != nullptr) peer_->enlist({memory_, bytes_});
}

PageBuffer::~PageBuffer() {
  if (peer_ != nullptr) peer_->delist({memory_, bytes_});
  ::munmap(memory_, bytes_);
}

Expected<void> fill(Peer& peer, std::uint32_t set_pages) {
  if (!peer.stores()) return {};
  PageBuffer buffer(kBatchPages, &peer);
  for (std::uint32_t first = 0; first < set_pages; first += kBatchPages) {
    for (std::uint32_t i = 0; i < kBatchPages; ++i) {
      const std::uint32_t number = first + i;
      std::memcpy(buffer.page(i), &number, sizeof number);
    }
    const Errc result = peer.write(first, kBatchPages, buffer.page(0));
    if (result != Errc::ok || interrupted()) return failure(peer, "writing the set", result);
  }
  Random random(1);
  for (std::uint32_t i = 0; i < kPagesChecked; ++i) {
    const std::uint32_t wanted = pick(random, set_pages, kBatchPages);
    const Errc result = peer.read(wanted, 2, buffer.page(0));
    if (result != Errc::ok) return failure(peer, "reading the set", result);
    std::uint32_t found[2] = {};
    for (std::uint32_t n = 0; n < 2; ++n) std::memcpy(&found[n], buffer.page(n), sizeof found[n]);
    if (found[0] != wanted || found[1] != wanted + 1) {
      return Error{Errc::io,
                   fmt::format("{}: page {} came back with other bytes than were written", peer.name(), wanted)};
    }
  }
  return {};
}

Expected<Summary> measure_latency(Peer& peer, const Latency& what, std::uint32_t set_pages, Clock::duration slice,
                                  Samples& samples) {
  PageBuffer buffer(what.pages, &peer);
  Random random(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()));
  samples.clear();
  const Clock::time_point begin = Clock::now();
  const Clock::time_point warm = begin + slice / kWarmUpShare;
  const Clock::time_point until = warm + slice;
  // On a machine so busy that a slice passes within one move, still one sample.
  for (Clock::time_point after = begin; (after < until || samples.count() == 0) && !samples.full() && !interrupted();) {
    const std::uint32_t first = pick(random, set_pages, what.pages);
    const Clock::time_point before = Clock::now();
    const Errc result = what.direction == Direction::read ? peer.read(first, what.pages, buffer.page(0))
                                                          : peer.write(first, what.pages, buffer.page(0));
    after = Clock::now();
    if (result != Errc::ok) return failure(peer, fmt::format("a {}", verb(what.direction)), result);
    if (before >= warm) samples.record(static_cast<std::uint64_t>(Nanos(after - before).count()));
  }
  if (interrupted()) return interruption();
  return samples.summary();
}

Expected<double> measure_throughput(Peer& peer, Direction direction, unsigned threads, std::uint32_t set_pages,
                                    Clock::duration slice) {
  std::vector<Worker> workers(threads);
  for (Worker& worker : workers) {
    Expected<std::unique_ptr<Batches>> batches = peer.batches(direction);
    if (!batches) return batches.error();
    worker.batches = *std::move(batches);
    worker.buffer = std::make_unique<PageBuffer>(kBatchPages * kBatchesInFlight, &peer);
  }
  // Everybody waits at the gate, so that starting a thread is not part of the slice.
  std::latch gate(threads + 1);
  std::atomic<Clock::rep> until{0};  // written before the gate opens, read after
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      gate.arrive_and_wait();
      workers[i].run(i + 1, set_pages, Clock::time_point(Clock::duration(until.load())));
    });
  }
  const Clock::time_point begin = Clock::now();
  until.store((begin + slice).time_since_epoch().count());
  gate.arrive_and_wait();
  for (std::thread& thread : running) thread.join();

  Clock::time_point end = begin;
  std::uint64_t finished = 0;
  for (const Worker& worker : workers) {
    if (worker.result != Errc::ok) return failure(peer, fmt::format("a batched {}", verb(direction)), worker.result);
    finished += worker.finished;
    end = std::max(end, worker.ended);
  }
  if (interrupted()) return interruption();
  const double bytes = static_cast<double>(finished) * kBatchPages * static_cast<double>(kPageSize);
  return bytes / std::chrono::duration<double>(end - begin).count();
}

}  // namespace comex::bench
