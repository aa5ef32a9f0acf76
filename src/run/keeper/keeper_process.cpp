#include "run/keeper/keeper_process.h"

#include <fmt/format.h>

#include <array>

#include "run/packet.h"

namespace comex {

std::string KeptProcess::name() const {
  return pid > 0 ? fmt::format("process {}", pid) : fmt::format("process (connection {})", number_);
}

bool KeptProcess::send(keeper_wire::Type type, std::vector<Fd> fds) {
  return queue(type, {}, {}, std::move(fds));
}

bool KeptProcess::send_runs(keeper_wire::Type type, std::span<const Run> runs) {
  const keeper_wire::Runs count{static_cast<std::uint32_t>(runs.size())};
  return queue(type, std::as_bytes(std::span(&count, 1)), std::as_bytes(runs), {});
}

bool KeptProcess::queue(keeper_wire::Type type, std::span<const std::byte> body, std::span<const std::byte> tail,
                        std::vector<Fd> fds) {
  if (!talking() || unsent_.size() >= kMostUnsent) return false;
  const keeper_wire::Head head{type};
  Message message;
  message.bytes.reserve(sizeof head + body.size() + tail.size());
  for (const auto part : {std::as_bytes(std::span(&head, 1)), body, tail}) {
    message.bytes.insert(message.bytes.end(), part.begin(), part.end());
  }
  message.fds = std::move(fds);
  unsent_.push_back(std::move(message));
  return flush();
}

bool KeptProcess::flush() {
  while (!unsent_.empty()) {
    const Message& message = unsent_.front();
    const iovec part{const_cast<std::byte*>(message.bytes.data()), message.bytes.size()};
    std::array<int, keeper_wire::kMaxDescriptors> fds{};
    for (std::size_t i = 0; i < message.fds.size(); ++i) fds[i] = message.fds[i].get();
    const Errc sent = send_packet(socket_.get(), {&part, 1}, std::span(fds).first(message.fds.size()));
    if (sent == Errc::busy) return true;
    if (sent != Errc::ok) return false;
    unsent_.pop_front();
  }
  return true;
}

}  // namespace comex
