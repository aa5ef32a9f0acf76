// A seal is what a process remembers of a page that is away, to know it again when it comes back. It lies beside the
// page's entry (pager/page_table.h), in memory of the process, so whoever has the page cannot forge one, nor pass off
// an older page as this one.
//
// A page is sealed when it has been copied to staging, and opened when it comes back, before the program can see it:
// see "Pages that come back are those that left" in docs/design-notes.md. The sealers are siblings: see choice.h.
//
// Thread safety: all functions from any thread. Fault path: all of them.
#pragma once

#include <cstddef>

namespace comex {

class Sealer {
 public:
  // Bytes that a seal takes.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  // Whether a sealed page has other bytes than the page; otherwise they may be read without being opened.
  [[nodiscard]] virtual bool veils() const noexcept { return false; }
  // Makes of a page, in place, what may leave, and its seal.
  virtual void seal(std::byte* page, std::byte* seal) const noexcept = 0;
  // The other way round. False if this is not what was sealed: then the bytes are of no use.
  [[nodiscard]] virtual bool open(std::byte* page, const std::byte* seal) const noexcept = 0;

 protected:
  ~Sealer() = default;  // nobody owns one by its interface
};

}  // namespace comex
