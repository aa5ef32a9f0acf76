#include "bench/peers/mapped.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"

namespace comex::bench {

namespace {

class Copies : public Batches {
 public:
  Copies(Mapped& mapped, Direction direction) : mapped_(mapped), direction_(direction) {}
  Errc start(unsigned, std::uint32_t first, std::byte* local) override {
    return direction_ == Direction::read ? mapped_.read(first, kBatchPages, local)
                                         : mapped_.write(first, kBatchPages, local);
  }
  Errc finish(unsigned) override { return Errc::ok; }

 private:
  Mapped& mapped_;
  Direction direction_;
};

}  // namespace

Expected<std::unique_ptr<Peer>> Mapped::create(std::uint32_t pages) {
  const std::size_t bytes = std::size_t{pages} << kPageShift;
  const Fd fd(::memfd_create("comex-bench", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return system_error("cannot create a memfd");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (memory == MAP_FAILED) return system_error("cannot map " + format_size(bytes));
  return std::unique_ptr<Peer>(new Mapped(static_cast<std::byte*>(memory), bytes));
}

Mapped::~Mapped() {
  ::munmap(memory_, bytes_);
}

Errc Mapped::read(std::uint32_t first, std::uint32_t count, std::byte* into) {
  std::memcpy(into, memory_ + (std::size_t{first} << kPageShift), std::size_t{count} << kPageShift);
  return Errc::ok;
}

Errc Mapped::write(std::uint32_t first, std::uint32_t count, std::byte* from) {
  std::memcpy(memory_ + (std::size_t{first} << kPageShift), from, std::size_t{count} << kPageShift);
  return Errc::ok;
}

Expected<std::unique_ptr<Batches>> Mapped::batches(Direction direction) {
  return std::unique_ptr<Batches>(std::make_unique<Copies>(*this, direction));
}

}  // namespace comex::bench
