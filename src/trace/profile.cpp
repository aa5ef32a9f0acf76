#include "trace/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "trace/varint.h"
#include "wire/codec.h"

namespace comex {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& to, wire::Writer& writer) {
  const Bytes bytes = writer.take();
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Nothing, if it makes no sense. `most`: faults.
std::optional<std::vector<std::uint64_t>> read_thread(wire::Reader& from, std::uint64_t most) {
  const std::uint64_t count = from.get<std::uint32_t>();
  if (!from.ok() || count > most || count > from.left()) return std::nullopt;
  std::vector<std::uint64_t> pages;
  pages.reserve(count);
  for (std::uint64_t i = 0, page = 0; i < count; ++i) {
    if (!add_difference(from, page)) return std::nullopt;
    pages.push_back(page);
  }
  return pages;
}

std::optional<ProfiledProcess> read_process(wire::Reader& from, std::uint64_t most) {
  ProfiledProcess process;
  process.executable = from.get<std::uint64_t>();
  process.arguments = from.get<std::uint64_t>();
  process.name = from.get_string();
  const auto threads = from.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < threads; ++i) {
    auto pages = read_thread(from, most);
    if (!pages) return std::nullopt;
    most -= pages->size();
    process.threads.push_back(*std::move(pages));
  }
  if (!from.ok()) return std::nullopt;
  return process;
}

Error damaged() {
  return Error{Errc::invalid, "it is damaged"};
}

}  // namespace

std::uint64_t ProfiledProcess::faults() const {
  std::uint64_t sum = 0;
  for (const auto& thread : threads) sum += thread.size();
  return sum;
}

std::uint64_t Profile::faults() const {
  std::uint64_t sum = 0;
  for (const ProfiledProcess& process : processes) sum += process.faults();
  return sum;
}

Bytes encode_profile(const Profile& profile) {
  Bytes bytes;
  wire::Writer writer;
  writer.put(std::as_bytes(std::span(Profile::kMagic)))
      .put(Profile::kVersion)
      .put(static_cast<std::uint32_t>(kPageSize))
      .put(static_cast<std::uint32_t>(profile.processes.size()));
  append(bytes, writer);
  for (const ProfiledProcess& process : profile.processes) {
    writer.put(process.executable)
        .put(process.arguments)
        .put(std::string_view(process.name))
        .put(static_cast<std::uint32_t>(process.threads.size()));
    append(bytes, writer);
    for (const auto& thread : process.threads) {
      writer.put(static_cast<std::uint32_t>(thread.size()));
      append(bytes, writer);
      std::uint64_t before = 0;
      for (const std::uint64_t page : thread) {
        put_difference(bytes, before, page);
        before = page;
      }
    }
  }
  writer.put(fingerprint(bytes));
  append(bytes, writer);
  return bytes;
}

Expected<Profile> decode_profile(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(Profile::kMagic));
  if (bytes.size() < magic.size() || !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    return Error{Errc::invalid, "it is no profile of comex"};
  }
  wire::Reader from(bytes.subspan(magic.size()));
  if (const auto version = from.get<std::uint16_t>(); from.ok() && version != Profile::kVersion) {
    return Error{Errc::invalid,
                 fmt::format("it is of version {}, and this comex reads {}", version, Profile::kVersion)};
  }
  const auto page_size = from.get<std::uint32_t>();
  const auto processes = from.get<std::uint32_t>();
  if (!from.ok() || page_size != kPageSize || processes > Profile::kMostProcesses) return damaged();
  if (from.left() < sizeof(std::uint64_t)) return damaged();
  wire::Reader end(bytes.last(sizeof(std::uint64_t)));
  if (end.get<std::uint64_t>() != fingerprint(bytes.first(bytes.size() - sizeof(std::uint64_t)))) return damaged();
  Profile profile;
  std::uint64_t left = Profile::kMostFaults;
  for (std::uint32_t i = 0; i < processes; ++i) {
    auto process = read_process(from, left);
    if (!process) return damaged();
    left -= process->faults();
    profile.processes.push_back(*std::move(process));
  }
  if (from.left() != sizeof(std::uint64_t)) return damaged();
  return profile;
}

}  // namespace comex
